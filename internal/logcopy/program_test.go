package logcopy_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/logcopy"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// universe is what random programs write to.
var universe = []struct {
	name   string
	policy mainstem.Policy
}{
	{"a", mainstem.Policy{}},
	{"a/b", mainstem.Policy{History: 3, TombstoneAge: -1}},
	{"one", mainstem.Policy{History: 1, TombstoneAge: time.Hour}},
	{"two", mainstem.Policy{History: 2}},
	{"quiet", mainstem.Policy{NoFeed: true}},
	{"quiet1", mainstem.Policy{NoFeed: true, History: 1, TombstoneAge: -1}},
	{"quiet3", mainstem.Policy{NoFeed: true, History: 3}},
	// The clock moves in steps of ten seconds: no record is looked at within the last second
	// of its life, in which it need not be copied.
	{"aging", mainstem.Policy{History: 2, MaxAge: 95 * time.Second}},
}

var universeKeys = []string{"k", "k\x00", "k\x00\xff", "kk", "\xff", "\x00"}

// allKeys are the keys that dump looks at besides those that are listed. Keys of
// spaces without feed whose newest record is gone are in no list.
func allKeys() map[string][]string {
	out := map[string][]string{}
	for _, u := range universe {
		if !u.policy.NoFeed {
			out[u.name] = universeKeys
		}
	}
	return out
}

// author makes random changes to a log.
type author struct {
	*rapid.T
	log   *pebblelog.Log
	clock *testkit.Clock
	ttl   bool
	n     int
}

// write makes some random commits, each at a time of its own or at that of the one before.
func (a *author) write(commits int) {
	for range commits {
		if rapid.IntRange(0, 2).Draw(a.T, "pass") > 0 {
			a.pass(rapid.IntRange(1, 4).Draw(a.T, "time"))
		}
		switch rapid.IntRange(0, 40).Draw(a.T, "step") {
		case 0:
			a.drop()
		case 1:
			a.alter()
		default:
			a.commit()
		}
	}
}

// pass lets steps of ten seconds pass.
func (a *author) pass(steps int) {
	a.clock.Advance(time.Duration(steps) * 10 * time.Second)
	if err := a.log.Sweep(context.Background()); err != nil {
		a.Fatalf("sweep: %v", err)
	}
}

func (a *author) space() string {
	return universe[rapid.IntRange(0, len(universe)-1).Draw(a.T, "space")].name
}

// drop drops a space, at a time after it was created: by that a copy tells it from another of its
// name.
func (a *author) drop() {
	name := a.space()
	a.pass(1)
	if err := a.log.DropSpace(context.Background(), name); err != nil && mainstem.KindOf(err) != mainstem.KindNotFound {
		a.Fatalf("drop: %v", err)
	}
}

func (a *author) alter() {
	i := rapid.IntRange(0, len(universe)-1).Draw(a.T, "space")
	p := universe[i].policy
	p.Metadata = map[string]string{"n": fmt.Sprint(rapid.IntRange(0, 3).Draw(a.T, "n"))}
	if p.History > 1 {
		p.History += rapid.IntRange(-1, 1).Draw(a.T, "history")
	}
	if p.History > 0 {
		p.TombstoneAge = []time.Duration{0, -1, time.Hour, 3 * time.Hour}[rapid.IntRange(0, 3).Draw(a.T, "age")]
	}
	if err := a.log.AlterSpace(context.Background(), universe[i].name, p); err != nil && mainstem.KindOf(err) != mainstem.KindNotFound {
		a.Fatalf("alter: %v", err)
	}
}

func (a *author) commit() {
	b := mainstem.NewBatch()
	for _, u := range universe {
		b.Ensure(u.name, u.policy)
	}
	forgotten := map[string]bool{}
	for range rapid.IntRange(1, 6).Draw(a.T, "writes") {
		w, ok := a.change()
		at := w.Space + "\x00" + string(w.Key)
		if !ok || forgotten[at] {
			continue
		}
		forgotten[at] = w.Op >= mainstem.OpForget // which versions are held then is not known here
		b.Add(w)
	}
	_, err := a.log.Commit(context.Background(), b)
	if err != nil && mainstem.KindOf(err) != mainstem.KindNotFound && mainstem.KindOf(err) != mainstem.KindInvalid {
		a.Fatalf("commit: %v", err)
	}
}

var ops = []mainstem.Op{0, 0, 0, 0, mainstem.OpDelete, mainstem.OpDelete, mainstem.OpPurge, mainstem.OpForget, mainstem.OpTruncate, mainstem.OpRewrite, mainstem.OpRemove}

// change returns a random write.
func (a *author) change() (mainstem.Write, bool) {
	w := mainstem.Write{
		Op: ops[rapid.IntRange(0, len(ops)-1).Draw(a.T, "op")], Space: a.space(),
		Key: []byte(universeKeys[rapid.IntRange(0, len(universeKeys)-1).Draw(a.T, "key")]),
	}
	a.n++
	value := [][]byte{nil, {}, fmt.Append(nil, a.n), make([]byte, 3000)}[rapid.IntRange(0, 3).Draw(a.T, "value")]
	var headers mainstem.Headers
	if rapid.IntRange(0, 3).Draw(a.T, "headers") == 0 {
		headers = mainstem.Headers{{Name: "h", Value: fmt.Append(nil, a.n)}, {Name: "", Value: nil}, {Name: "", Value: []byte{}}}
	}
	switch w.Op {
	case mainstem.OpPut:
		w.Value, w.Headers = value, headers
		if rapid.IntRange(0, 3).Draw(a.T, "many") == 0 {
			w.Count = uint32(rapid.IntRange(2, 5).Draw(a.T, "count"))
		}
		if a.ttl && !hides(w.Space) && rapid.IntRange(0, 3).Draw(a.T, "ttl") == 0 {
			w.TTL = time.Duration(rapid.IntRange(0, 20).Draw(a.T, "life"))*10*time.Second + 5*time.Second
		}
		return w, true
	case mainstem.OpDelete, mainstem.OpPurge:
		w.Headers = headers
		return w, true
	case mainstem.OpForget:
		return w, true
	}
	var held []mainstem.Version
	for r, err := range a.log.Read(context.Background(), w.Space, w.Key, mainstem.Versions{}) {
		if err == nil {
			held = append(held, r.Version)
		}
	}
	if len(held) == 0 {
		return w, false
	}
	w.Version = held[rapid.IntRange(0, len(held)-1).Draw(a.T, "version")]
	if w.Op == mainstem.OpRemove && hides(w.Space) && w.Version == held[len(held)-1] {
		return w, false
	}
	if w.Op == mainstem.OpRewrite {
		w.Value, w.Headers = value, headers
	}
	return w, true
}

// hides reports whether a space has no list that shows keys whose newest record is gone
// while older ones are held.
func hides(space string) bool { return space == "quiet" || space == "quiet3" }

// versions writes down the newest versions of the keys that hold records.
func versions(t failer, log mainstem.Log) (out []string) {
	ctx := context.Background()
	for _, u := range universe {
		for _, key := range universeKeys {
			held := false
			for _, err := range log.Read(ctx, u.name, []byte(key), mainstem.Versions{Limit: 1}) {
				held = err == nil
			}
			if !held || u.policy.NoFeed {
				continue
			}
			v, err := logcopy.Probe(ctx, log, u.name, []byte(key))
			if err != nil {
				t.Fatalf("probe: %v", err)
			}
			out = append(out, fmt.Sprintf("%s %q is at %d", u.name, key, v))
		}
	}
	return out
}

// opened runs body with two logs in memory.
func opened(t *rapid.T, c *testkit.Clock, body func(from, to *pebblelog.Log)) {
	var logs [2]*pebblelog.Log
	for i := range logs {
		log, err := pebblelog.OpenMemory(&pebblelog.Options{Now: c.Now, KeyStateCache: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		logs[i] = log
	}
	body(logs[0], logs[1])
}

// TestRandomLogs copies random logs and compares everything.
func TestRandomLogs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := new(testkit.Clock)
		opened(t, c, func(from, to *pebblelog.Log) {
			a := author{T: t, log: from, clock: c, ttl: true}
			a.write(rapid.IntRange(0, 40).Draw(t, "commits"))
			o := &logcopy.Options{Now: c.Now, BatchWrites: rapid.IntRange(1, 5).Draw(t, "limit"), QuietBytes: rapid.SampledFrom([]int{1, 2000, 1 << 20}).Draw(t, "quiet")}
			r := run(t, from, to, o)
			same(t, dump(t, to, "", allKeys()), dump(t, from, "", allKeys()))
			same(t, versions(t, to), versions(t, from))
			if r.Later != 0 {
				t.Fatalf("%+v", r)
			}
		})
	})
}

var created = regexp.MustCompile(` created \d+`)

// TestRandomChanges brings a copy up to date again and again, while the log
// is edited in all ways between the runs.
//
// Nothing but the test sweeps the target, after a run: a target that removes what is too old
// before a run has nothing that the tombstones of that run end (see TestTombstoneOfWhatIsTooOld).
// A log sweeps in the background, first when it is opened, and then by a timer. The test waits
// for the first sweep. The timer does not fire: the time of a bubble stands still while the test
// runs.
func TestRandomChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, changes) })
}

func changes(t *rapid.T) {
	c := new(testkit.Clock)
	opened(t, c, func(from, to *pebblelog.Log) {
		synctest.Wait()
		a := author{T: t, log: from, clock: c}
		for range rapid.IntRange(2, 4).Draw(t, "runs") {
			a.write(rapid.IntRange(0, 20).Draw(t, "commits"))
			run(t, from, to, &logcopy.Options{Now: c.Now})
			if err := to.Sweep(context.Background()); err != nil {
				t.Fatal(err)
			}
			got, want := dump(t, to, "", allKeys()), dump(t, from, "", allKeys())
			for i := range got {
				got[i] = created.ReplaceAllString(got[i], "")
			}
			for i := range want {
				want[i] = created.ReplaceAllString(want[i], "")
			}
			same(t, got, want)
		}
	})
}
