package natslog

import (
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// TestPositionsOfWhatWasNotSeen has messages leave the stream before a process sees them.
// What they said of keys that are gone, it must take to be as late as it can be.
func TestPositionsOfWhatWasNotSeen(t *testing.T) {
	l := &Log{replay: replay{st: newState()}}
	s := &l.st
	seq := uint64(0)
	message := func(skip, base, head uint64, part, parts uint32, facts ...fact) {
		seq += skip + 1
		_ = l.takeLocked(piece{frame: frame{head: head, facts: facts}, base: base, part: part, parts: parts}, seq)
	}
	apply := func(skip, head uint64, facts ...fact) { message(skip, head-min(head, 1), head, 0, 1, facts...) }
	define := func(id uint32, name string, history int, floor uint64) fact {
		return fact{kind: factSpace, space: id, name: name, floor: floor, def: format.Space{ID: id, Policy: mainstem.Policy{History: history}}}
	}
	written := func(space, name string, want uint64) {
		t.Helper()
		tx := newTx(s, wallclock.Moment{}, 1<<20)
		if _, got, _ := tx.peek(tx.space(space), []byte(name)); got != want {
			t.Errorf("key %s of space %s was written at position %d, want %d", name, space, got, want)
		}
	}
	record := func(id uint32, name string, version, pos uint64) fact {
		return fact{kind: factRecord, space: id, key: []byte(name), rec: &record{version: version, pos: pos, count: 1}}
	}
	keyFact := func(id uint32, name string, head uint64) fact {
		return fact{kind: factKey, space: id, key: []byte(name), head: head, floor: head + 1}
	}
	apply(0, 0, define(1, "all", 0, 0), define(2, "one", 1, 0))
	apply(0, 10, record(1, "k", 1, 9), record(2, "k", 1, 10))
	apply(0, 20, keyFact(1, "k", 1), keyFact(2, "k", 1)) // forgotten, and the records were seen
	written("all", "k", 9)
	written("one", "k", 10)
	apply(3, 30, keyFact(1, "late", 5)) // of which the records were not seen
	written("all", "late", 30)
	written("all", "never", 0)
	written("one", "never", 0)           // it has forgotten none: it has no floor
	apply(0, 40, define(2, "one", 1, 7)) // now it has
	written("one", "never", 29)          // whatever it was, it was not after the gap
	apply(1, 50)
	written("one", "never", 49)
	written("one", "k", 10)
	written("all", "never", 0)
	restated := record(1, "late", 5, 25)
	restated.kind = factRestated
	apply(0, 60, restated)
	written("all", "late", 25)
	apply(0, 70, record(2, "never", 8, 70))
	written("one", "never", 70)
	message(1, 80, 82, 0, 2)
	written("one", "other", 80) // also while the frame after the gap is not complete
	message(0, 81, 82, 1, 2)
	written("one", "other", 80)
	message(1, 90, 92, 1, 2) // the end of a frame that is being deleted
	written("one", "other", 90)
}
