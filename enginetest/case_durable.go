package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
)

// A restart is a clean one here. What survives a power cut or a kill is the
// business of crash tests, which need to get below the engine.
var durableCases = []testCase{
	{law: Durable, name: "everything is there after reopen", needs: needReopen, run: everythingAfterReopen,
		promise: "A log that is closed and opened again holds exactly what it held: records, spaces, policies and numbers."},
	{law: Durable, name: "every durability survives close", needs: needReopen, run: everyDurability,
		promise: "What was acknowledged at any durability is durable when Close returns."},
	{law: Durable, name: "numbers go on after reopen", needs: needReopen, run: numbersGoOn,
		promise: "Positions, versions and time go on after a restart, even if the newest records were removed."},
	{law: Durable, name: "removed stays removed after reopen", needs: needReopen | needForget | needTruncate | needRemove, run: removedStaysRemoved,
		promise: "What was dropped, truncated, purged, forgotten or superseded does not come back with a restart."},
	{law: Durable, name: "feeds resume after reopen", needs: needReopen, run: feedsResume,
		promise: "A position kept from before a restart resumes a feed exactly."},
	{law: Durable, name: "close keeps what was acknowledged", needs: needReopen, run: closeKeepsAcknowledged,
		promise: "If Close comes while others commit, every batch acknowledged is there afterwards and none that was refused."},
}

func everythingAfterReopen(e *env) {
	e.seeded()
	e.space("meta", mainstem.Policy{History: 3, NoFeed: true, TombstoneAge: -1, Metadata: map[string]string{"view": "test", "empty": ""}})
	e.space("empty", mainstem.Policy{MaxBytes: 1 << 40})
	e.commit(muchWork)
	e.commit(func(b *mainstem.Batch) {
		b.Add(mainstem.Write{Space: "s", Key: []byte("\x00\xff"), Count: 7, Value: []byte{}, Headers: mainstem.Headers{{Name: "h", Value: []byte("1")}, {Name: "h"}}})
		b.Add(mainstem.Write{Space: "meta", Key: []byte("\xff"), Value: nil})
		b.Add(mainstem.Write{Op: mainstem.OpPurge, Space: "s", Key: []byte("live")})
		if e.f.Expiry {
			b.Add(mainstem.Write{Space: "b", Key: []byte("later"), Value: []byte("v"), TTL: 1000 * time.Hour})
		}
	})
	before := e.dump(e.log)
	for n := range 2 {
		e.restart()
		e.unchanged(before, fmt.Sprintf("after restart %d", n+1))
	}
	e.commit(func(b *mainstem.Batch) {
		b.IfVersion("s", []byte("twice"), 3)
		b.Put("s", []byte("twice"), []byte("4"))
	})
	e.restart()
	e.holds("s", "twice", "4")
}

func everyDurability(e *env) {
	all := []mainstem.Durability{mainstem.DefaultDurability, mainstem.OS, mainstem.Interval(time.Hour), mainstem.Fsync, mainstem.Interval(time.Millisecond), mainstem.OS}
	e.space("s", mainstem.Policy{})
	var want []string
	for i, d := range all {
		e.commit(func(b *mainstem.Batch) { b.Durability = d; b.Put("s", []byte{byte('a' + i)}, []byte(d.String())) })
		want = append(want, fmt.Sprintf("s/%c@1=%s", 'a'+i, d))
	}
	e.same("the feed before the restart", briefs(e.feed(mainstem.Filter{})), want...)
	e.restart()
	e.same("the feed after the restart", briefs(e.feed(mainstem.Filter{})), want...)
}

func numbersGoOn(e *env) {
	e.space("s", mainstem.Policy{})
	e.space("b", mainstem.Policy{History: 1})
	e.space("dropped", mainstem.Policy{})
	var last mainstem.Receipt
	var removed = "forgotten"
	for range 3 {
		last = e.commit(func(b *mainstem.Batch) {
			for _, space := range []string{"s", "b"} {
				for _, key := range []string{"kept", "deleted", removed} {
					b.Put(space, []byte(key), []byte("v"))
				}
			}
			b.Put("dropped", []byte("k"), nil)
		})
	}
	last = e.commit(func(b *mainstem.Batch) { b.Delete("s", []byte("deleted")); b.Delete("b", []byte("deleted")) })
	if e.f.Forget {
		for _, space := range []string{"s", "b"} {
			e.apply(space, removed, mainstem.Write{Op: mainstem.OpForget})
		}
	}
	newest := e.put("dropped", "k", "newest of the log")
	if err := e.log.DropSpace(e.ctx, "dropped"); err != nil {
		e.Fatalf("drop: %v", err)
	}
	e.restart()
	if e.head() != newest.Last {
		e.Fatalf("the head is %d after a restart, was %d", e.head(), newest.Last)
	}
	for _, space := range []string{"s", "b"} {
		for key, above := range map[string]mainstem.Version{"kept": 3, "deleted": 4, removed: 3} {
			r := e.put(space, key, "after")
			if r.First <= newest.Last || r.Time.Before(last.Time) {
				e.Fatalf("after a restart %s/%s got position %d at %v, before it %d at %v", space, key, r.First, r.Time, newest.Last, last.Time)
			}
			if v := r.Versions[0]; v <= above || key != removed && v != above+1 {
				e.Fatalf("after a restart %s/%s got version %d, it had %d", space, key, v, above)
			}
		}
	}
}

func removedStaysRemoved(e *env) {
	e.space("s", mainstem.Policy{})
	e.space("b", mainstem.Policy{History: 2})
	e.space("dropped", mainstem.Policy{})
	for _, space := range []string{"s", "b"} {
		for range 3 {
			for _, key := range []string{"truncated", "emptied", "purged", "forgotten", "thinned"} {
				e.put(space, key, "v")
			}
		}
		e.apply(space, "truncated", mainstem.Write{Op: mainstem.OpTruncate, Version: 3})
		e.apply(space, "emptied", mainstem.Write{Op: mainstem.OpTruncate, Version: 4})
		e.apply(space, "purged", mainstem.Write{Op: mainstem.OpPurge})
		e.apply(space, "forgotten", mainstem.Write{Op: mainstem.OpForget})
		e.apply(space, "thinned", mainstem.Write{Op: mainstem.OpRemove, Version: 2})
	}
	e.put("dropped", "k", "v")
	if err := e.log.DropSpace(e.ctx, "dropped"); err != nil {
		e.Fatalf("drop: %v", err)
	}
	before := e.dump(e.log)
	e.restart()
	e.unchanged(before, "after a restart")
	e.same("the feed of all history", briefs(e.feed(mainstem.Filter{Spaces: []string{"s"}})),
		"s/thinned@1=v", "s/truncated@3=v", "s/thinned@3=v", "s/purged@4 purged")
	e.space("dropped", mainstem.Policy{})
	if got := e.feed(mainstem.Filter{Spaces: []string{"dropped"}}); len(got) != 0 {
		e.Fatalf("a dropped space came back with %v", briefs(got))
	}
}

func feedsResume(e *env) {
	e.space("s", mainstem.Policy{})
	var at []mainstem.Position
	for n := range 10 {
		at = append(at, e.put("s", fmt.Sprint(n), "v").Last)
	}
	e.restart()
	e.put("s", "10", "v")
	for n, p := range at {
		got := briefs(e.feed(mainstem.Filter{After: p}))
		if len(got) != 10-n || got[0] != fmt.Sprintf("s/%d@1=v", n+1) {
			e.Fatalf("after position %d the feed has %v", p, got)
		}
	}
	fl := e.follow(mainstem.Filter{After: at[9]})
	fl.wants("s/10@1=v")
	e.put("s", "11", "v")
	fl.wants("s/11@1=v")
	fl.stop()
}

func closeKeepsAcknowledged(e *env) {
	e.space("s", mainstem.Policy{})
	var mu sync.Mutex
	var acknowledged, unsure []string
	started := make(chan struct{}, 1<<12)
	work := func(w int) error {
		for n := 0; ; n++ {
			name := fmt.Sprintf("%d.%d", w, n)
			b := mainstem.NewBatch()
			b.Put("s", []byte("k"), []byte(name))
			_, err := e.attempt(b)
			mu.Lock()
			switch {
			case err == nil:
				acknowledged = append(acknowledged, name)
			case errors.Is(err, mainstem.ErrUnknownOutcome):
				unsure = append(unsure, name)
			}
			mu.Unlock()
			if err != nil {
				if !errors.Is(err, mainstem.ErrClosed) {
					return fmt.Errorf("commit while closing: %w, want Closed", err)
				}
				return nil
			}
			select {
			case started <- struct{}{}:
			default:
			}
		}
	}
	e.parallel(5, func(i int) error {
		if i > 0 {
			return work(i)
		}
		for range 40 { // let some commits through first
			<-started
		}
		return e.log.Close()
	})
	e.restart()
	var kept []string
	for _, r := range e.read("s", "k", mainstem.Versions{}) {
		kept = append(kept, string(r.Value))
	}
	for _, name := range acknowledged {
		if !slices.Contains(kept, name) {
			e.Fatalf("batch %s was acknowledged and is gone", name)
		}
	}
	for _, name := range kept {
		if !slices.Contains(acknowledged, name) && !slices.Contains(unsure, name) {
			e.Fatalf("batch %s was refused as not written and is there", name)
		}
	}
}
