package logcopy_test

import (
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/logcopy"
)

// fillAll writes one of everything.
func fillAll(t failer, log mainstem.Log, c *clock) {
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
	c.pass(time.Second)
	commit(t, log, func(b *mainstem.Batch) {
		b.Put("quiet", []byte("q"), []byte("1"))
		b.Put("sized", []byte("s"), make([]byte, 40_000))
		b.Add(mainstem.Write{Space: "one", Key: []byte("lives"), Value: []byte("x"), TTL: 3 * time.Hour})
		b.Put("one", []byte("dies"), []byte("x"))
		b.Put("three", []byte("k"), []byte("1"))
	})
	c.pass(time.Second)
	commit(t, log, func(b *mainstem.Batch) {
		b.Put("quiet", []byte("q"), []byte("2"))
		b.Add(mainstem.Write{Op: mainstem.OpDelete, Space: "one", Key: []byte("dies"), Headers: mainstem.Headers{{Name: "why", Value: []byte("so")}}})
		b.Put("three", []byte("k"), []byte("2"))
		b.Delete("all", []byte("a"))
		b.Put("all", []byte("b"), []byte("1"))
		b.Put("all", []byte("b"), []byte("2"))
		b.Put("all", []byte("b"), []byte("3"))
	})
	c.pass(time.Second)
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
	c := newClock()
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
