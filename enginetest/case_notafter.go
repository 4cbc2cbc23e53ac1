package enginetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
)

var notAfterCases = []testCase{
	{law: Conditional, name: "not after, in every state", run: notAfterInEveryState,
		promise: "TestNotAfter holds from the position of the key's newest record on, value or tombstone, and for a key never written always."},
	{law: Conditional, name: "not after what was removed", run: notAfterRemoved,
		promise: "TestNotAfter never holds below the position of a record that was removed, always holds at the head, and keeps both over restarts and sweeps."},
	{law: Conditional, name: "not after, in a space created anew", run: notAfterInNewSpace,
		promise: "A space that was dropped and created anew has none of the positions from before."},
	{law: Conditional, name: "not after, before the batch", run: notAfterBeforeTheBatch,
		promise: "TestNotAfter sees the state before the batch, whatever the batch itself writes."},
	{law: Conditional, name: "not after under contention", run: notAfterUnderContention,
		promise: "Of many clients that write on condition that nothing was written since they read, each has read what the one before it wrote."},
}

// notAfter fails unless a condition of space/key on position p holds.
func (e *env) notAfter(space, key string, p mainstem.Position) {
	e.Helper()
	b := mainstem.NewBatch()
	b.IfNotAfter(space, []byte(key), p)
	if _, err := e.attempt(b); err != nil {
		e.Fatalf("if %s/%q was not written after position %d: %v, want it to hold", space, key, p, err)
	}
}

// after fails unless a condition of space/key on position p fails, and returns what it got.
func (e *env) after(space, key string, p mainstem.Position) mainstem.Position {
	e.Helper()
	err := e.refused(mainstem.KindConflict, func(b *mainstem.Batch) {
		b.IfNotAfter(space, []byte(key), p)
		b.Ensure("must not be", mainstem.Policy{})
		b.Put("must not be", []byte("k"), nil)
	})
	w := err.Want
	if w.Space != space || string(w.Key) != key || w.Test != mainstem.TestNotAfter || w.Position != p {
		e.Fatalf("if %s/%q was not written after position %d: the conflict wants %+v", space, key, p, w)
	}
	if head := e.head(); err.GotPosition <= p || err.GotPosition > head {
		e.Fatalf("if %s/%q was not written after position %d: the conflict got position %d; the head is %d", space, key, p, err.GotPosition, head)
	}
	return err.GotPosition
}

// newestAt fails unless the newest record of space/key has position p exactly.
func (e *env) newestAt(space, key string, p mainstem.Position) {
	e.Helper()
	e.notAfter(space, key, p)
	e.notAfter(space, key, p+1)
	e.notAfter(space, key, 1<<63)
	for _, below := range []mainstem.Position{p - 1, 0} {
		if got := e.after(space, key, below); got != p {
			e.Fatalf("if %s/%q was not written after position %d: the conflict got position %d, want %d", space, key, below, got, p)
		}
	}
}

func notAfterInEveryState(e *env) {
	e.notAfter("nowhere", "k", 0)
	e.inEvery(func(s string, _ mainstem.Policy) {
		e.notAfter(s, "k", 0)
		var at mainstem.Position
		for range 4 {
			at = e.put(s, "k", "v").Last
			e.put(s, "other", "v")
			e.newestAt(s, "k", at)
		}
		e.newestAt(s, "k", at)
		e.notAfter(s, "never", 0)
		at = e.apply(s, "k", mainstem.Write{Op: mainstem.OpDelete}).Last
		e.newestAt(s, "k", at)
		e.apply(s, "k", mainstem.Write{Op: mainstem.OpDelete}) // writes nothing
		e.newestAt(s, "k", at)
		at = e.put(s, "k", "again").Last
		e.newestAt(s, "k", at)
		if e.f.Rewrite {
			e.apply(s, "k", mainstem.Write{Op: mainstem.OpRewrite, Version: e.get(s, "k").Version, Value: []byte("rewritten")})
			e.newestAt(s, "k", at)
		}
		at = e.apply(s, "k", mainstem.Write{Op: mainstem.OpPurge}).Last
		e.newestAt(s, "k", at)
		e.newestAt(s, "k", e.apply(s, "k", mainstem.Write{Count: 9}, mainstem.Write{}, mainstem.Write{Count: 3}).Last)
		if e.f.Reopen != nil {
			at = e.put(s, "k", "last").Last
			e.restart()
			e.newestAt(s, "k", at)
			e.notAfter(s, "never", e.head())
		}
	})
}

// removals are the ways in which the newest record of a key goes without another one.
func (e *env) removals() map[string]func(space, key string) {
	all := map[string]func(space, key string){}
	if e.f.Forget {
		all["forgotten"] = func(space, key string) { e.apply(space, key, mainstem.Write{Op: mainstem.OpForget}) }
	}
	if e.f.Remove {
		all["removed"] = func(space, key string) {
			e.apply(space, key, mainstem.Write{Op: mainstem.OpRemove, Version: e.get(space, key).Version})
		}
	}
	if e.f.Truncate {
		all["truncated"] = func(space, key string) {
			e.apply(space, key, mainstem.Write{Op: mainstem.OpTruncate, Version: e.get(space, key).Version + 1})
		}
	}
	return all
}

func notAfterRemoved(e *env) {
	for how, remove := range e.removals() {
		for name, p := range policies {
			s := name + " " + how
			p.TombstoneAge = time.Minute
			e.space(s, p)
			e.put(s, "k", "1")
			at := e.put(s, "k", "2").Last
			e.put(s, "other", "v")
			remove(s, "k")
			e.removedAt(s, at)
			got := e.after(s, "k", at-1)
			for range 5 {
				e.put(s, "other", "v")
			}
			if now := e.after(s, "k", at-1); now != got {
				e.Fatalf("the position of a key %s in %s was %d and is %d after writes to another key", how, s, got, now)
			}
			e.notAfter(s, "never", e.head())
			e.put(s, "deleted", "v")
			ended := e.apply(s, "deleted", mainstem.Write{Op: mainstem.OpDelete}).Last
			if e.f.Clock != nil { // what is left of the keys goes
				e.pass(time.Hour)
				e.sweep()
				e.sweep()
			}
			e.removedAt(s, at)
			e.after(s, "deleted", ended-1)
			e.notAfter(s, "deleted", e.head())
			if e.f.Reopen != nil {
				e.restart()
				e.removedAt(s, at)
				e.after(s, "deleted", ended-1)
				e.put(s, "other", "v")
				e.removedAt(s, at)
			}
			e.newestAt(s, "k", e.put(s, "k", "3").Last)
		}
	}
}

// removedAt checks what is promised of the key k of s, whose newest record had position p.
func (e *env) removedAt(s string, p mainstem.Position) {
	e.Helper()
	e.after(s, "k", p-1)
	e.after(s, "k", 0)
	e.notAfter(s, "k", e.head())
}

func notAfterInNewSpace(e *env) {
	for name, p := range policies {
		for range 2 {
			e.space(name, p)
			e.notAfter(name, "k", 0)
			at := e.put(name, "k", "v").Last
			e.newestAt(name, "k", at)
			if e.f.Forget {
				e.apply(name, "k", mainstem.Write{Op: mainstem.OpForget})
				e.removedAt(name, at)
			}
			if err := e.log.DropSpace(e.ctx, name); err != nil {
				e.Fatalf("drop space: %v", err)
			}
			e.notAfter(name, "k", 0)
		}
	}
}

func notAfterBeforeTheBatch(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		var at mainstem.Position
		for range 3 {
			r := e.commit(func(b *mainstem.Batch) {
				b.Put(s, []byte("k"), nil)
				b.Put(s, []byte("new"), nil)
				b.IfNotAfter(s, []byte("k"), at)
				b.IfNotAfter(s, []byte("k"), at+7)
				b.IfNotAfter(s, []byte("none"), 0)
			})
			at = r.First
		}
		e.newestAt(s, "k", at)
	})
}

// maxConflicts is how often a client may conflict before one of all clients has committed.
// One of those that race has to win, so that a few are enough for an engine that is right.
const maxConflicts = 1000

func notAfterUnderContention(e *env) {
	for _, s := range []string{"all", "three"} {
		e.space(s, policies[s])
		var done atomic.Int64
		e.parallel(4, func(int) error {
			for conflicts, seen := 0, int64(0); seen < int64(busy()); {
				var p mainstem.Position
				r, err := e.log.Get(e.ctx, s, []byte("k"))
				if p = r.Position; err != nil && !errors.Is(err, mainstem.ErrNotFound) {
					return err
				}
				b := mainstem.NewBatch()
				b.IfNotAfter(s, []byte("k"), p)
				b.Put(s, []byte("k"), fmt.Append(nil, p))
				if _, err = e.attempt(b); err == nil {
					done.Add(1)
				} else if !errors.Is(err, mainstem.ErrConflict) {
					return err
				}
				if conflicts++; done.Load() != seen {
					conflicts, seen = 0, done.Load()
				} else if conflicts == maxConflicts {
					return fmt.Errorf("%d commits in a row conflicted while no other client committed: %w", conflicts, err)
				}
			}
			return nil
		})
		records := e.read(s, "k", mainstem.Versions{})
		if last := records[len(records)-1]; int64(last.Version) != done.Load() {
			e.Fatalf("%d writes succeeded, the newest version is %d", done.Load(), last.Version)
		}
		for i, r := range records[1:] {
			if want := strconv.Itoa(int(records[i].Position)); string(r.Value) != want {
				e.Fatalf("version %d was written after position %s was read, but the one before it has position %s", r.Version, r.Value, want)
			}
		}
	}
}
