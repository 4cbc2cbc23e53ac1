package logcopy_test

import (
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/logcopy"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// fillAll writes one of everything.
func fillAll(t failer, log mainstem.Log, c *testkit.Clock) {
	commit(t, log, func(b *mainstem.Batch) {
		b.Ensure("all", mainstem.Policy{Metadata: map[string]string{"view": "test", "x": "ä"}})
		b.Ensure("one", mainstem.Policy{History: 1, TombstoneAge: time.Hour})
		b.Ensure("three", mainstem.Policy{History: 3, MaxAge: 100 * time.Hour})
		b.Ensure("quiet", mainstem.Policy{NoFeed: true, History: 2})
		b.Ensure("sized", mainstem.Policy{MaxBytes: 1 << 20})
		b.Put("all", []byte("a"), nil)
		b.Put("all", []byte("a"), []byte{})
		b.Add(mainstem.Write{Space: "all", Key: []byte("\x00\xff"), Value: []byte("v"), Count: 7, Headers: mainstem.Headers{{Name: "h", Value: nil}, {Name: "h", Value: []byte{}}}})
	})
	c.Advance(time.Second)
	commit(t, log, func(b *mainstem.Batch) {
		b.Put("quiet", []byte("q"), []byte("1"))
		b.Put("sized", []byte("s"), make([]byte, 40_000))
		b.Add(mainstem.Write{Space: "one", Key: []byte("lives"), Value: []byte("x"), TTL: 3 * time.Hour})
		b.Put("one", []byte("dies"), []byte("x"))
		b.Put("three", []byte("k"), []byte("1"))
	})
	c.Advance(time.Second)
	commit(t, log, func(b *mainstem.Batch) {
		b.Put("quiet", []byte("q"), []byte("2"))
		b.Add(mainstem.Write{Op: mainstem.OpDelete, Space: "one", Key: []byte("dies"), Headers: mainstem.Headers{{Name: "why", Value: []byte("so")}}})
		b.Put("three", []byte("k"), []byte("2"))
		b.Delete("all", []byte("a"))
		b.Put("all", []byte("b"), []byte("1"))
		b.Put("all", []byte("b"), []byte("2"))
		b.Put("all", []byte("b"), []byte("3"))
	})
	c.Advance(time.Second)
	commit(t, log, func(b *mainstem.Batch) {
		b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: "all", Key: []byte("b"), Version: 2})
		b.Rewrite("all", []byte("b"), 1, []byte("one"), nil)
		b.Add(mainstem.Write{Op: mainstem.OpPurge, Space: "three", Key: []byte("k")})
		b.Put("quiet", []byte("q"), []byte("3"))
		b.Put("all", []byte("gone"), []byte("x"))
		b.Truncate("all", []byte("gone"), 2)
	})
}

func TestCopyIsTheSame(t *testing.T) {
	c := new(testkit.Clock)
	from, to := open(t, c), open(t, c)
	fillAll(t, from, c)
	r := run(t, from, to, &logcopy.Options{Now: c.Now})
	same(t, dump(t, to, "", nil), dump(t, from, "", nil))
	if r.Resumed || r.Position != r.Head || r.Records == 0 || r.Verified.Records == 0 || r.Spaces != 5 || r.Later != 0 || r.Repaired != 0 {
		t.Errorf("the report is %+v", r)
	}
	back := open(t, c)
	run(t, to, back, &logcopy.Options{Now: c.Now})
	same(t, dump(t, back, "", nil), dump(t, from, "", nil))
}

// The newest record of a key was removed, and its space keeps as many records as are left:
// the versions of the copy go on behind what was removed, and nothing else is lost.
func TestRemovedNewestSupersedesNothing(t *testing.T) {
	for _, history := range []int{1, 2, 3} {
		c := new(testkit.Clock)
		from, to := open(t, c), open(t, c)
		const space = "two"
		last := mainstem.Version(history + 1)
		commit(t, from, func(b *mainstem.Batch) {
			b.Ensure(space, mainstem.Policy{History: history + 1})
			for range last {
				b.Put(space, []byte("k"), nil)
			}
		})
		commit(t, from, func(b *mainstem.Batch) {
			b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: space, Key: []byte("k"), Version: last})
		})
		if err := from.AlterSpace(t.Context(), space, mainstem.Policy{History: history}); err != nil {
			t.Fatal(err)
		}
		keys := map[string][]string{space: {"k"}}
		run(t, from, to, &logcopy.Options{Now: c.Now})
		same(t, dump(t, to, "", keys), dump(t, from, "", keys))
		for _, log := range []mainstem.Log{from, to} {
			v, err := logcopy.Probe(t.Context(), log, space, []byte("k"))
			if err != nil || v != last {
				t.Errorf("history %d: version %d, %v; want %d", history, v, err, last)
			}
		}
	}
}

// A space keeps fewer records than before, and the newest of a key was removed: the copy
// still has the one that the source holds.
func TestResumeWithShorterHistory(t *testing.T) {
	c := new(testkit.Clock)
	from, to := open(t, c), open(t, c)
	commit(t, from, func(b *mainstem.Batch) {
		b.Ensure("two", mainstem.Policy{History: 2})
		b.Put("two", []byte("k"), []byte("1"))
		b.Delete("two", []byte("k"))
	})
	run(t, from, to, &logcopy.Options{Now: c.Now})
	commit(t, from, func(b *mainstem.Batch) {
		b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: "two", Key: []byte("k"), Version: 2})
	})
	if err := from.AlterSpace(t.Context(), "two", mainstem.Policy{History: 1}); err != nil {
		t.Fatal(err)
	}
	run(t, from, to, &logcopy.Options{Now: c.Now})
	keys := map[string][]string{"two": {"k"}}
	got, want := dump(t, to, "", keys), dump(t, from, "", keys)
	same(t, got[1:], want[1:]) // the first line says when the space was made
}

// The target removes what is too old for its space before it gets the tombstone of the
// same key. There is nothing left to end; a tombstone of a key that the target never had
// is still a difference.
func TestTombstoneOfWhatIsTooOld(t *testing.T) {
	c := new(testkit.Clock)
	from, to := open(t, c), open(t, c)
	commit(t, from, func(b *mainstem.Batch) {
		b.Ensure("aging", mainstem.Policy{History: 1, MaxAge: 95 * time.Second})
		b.Put("aging", []byte("k"), []byte("1"))
	})
	run(t, from, to, &logcopy.Options{Now: c.Now})
	c.Advance(60 * time.Second)
	commit(t, from, func(b *mainstem.Batch) { b.Delete("aging", []byte("k")) })
	c.Advance(60 * time.Second)
	if err := to.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, from, to, &logcopy.Options{Now: c.Now})

	never := open(t, c)
	commit(t, never, func(b *mainstem.Batch) {
		b.Ensure("aging", mainstem.Policy{History: 1, MaxAge: 95 * time.Second})
	})
	copied, err := logcopy.New(from, never, &logcopy.Options{Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	r, err := copied.Verify(t.Context())
	if err != nil || r.Different != 1 || string(r.Differences[0].Key) != "k" {
		t.Errorf("a target that never had the key: %+v, %v; want it as the one difference", r, err)
	}
}
