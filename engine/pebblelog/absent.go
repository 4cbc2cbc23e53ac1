package pebblelog

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem/internal/invariants"
)

// absences remembers keys that reads have not found in any tier, by the key of the slot or the
// prefix of the records, so that a condition of the commit that follows need not look for them
// again in Pebble. An entry is not removed when its key is written: it is asked for only if the
// hot tier does not have the key, and counts only in the epoch in which it was made. Each
// place holds the latest of its entries, so memory is bounded.
//
// Why an entry is right. A reader reads the epoch, then finds the key in neither tier. Suppose the
// leader asks for the entry while that epoch lasts, and the hot tier lacks the key. Had a group
// written the key after the reader's look, it went to the hot tier, since no group goes past it
// in the epoch, and it is there still, since nothing is forgotten in the epoch. So no group has.
// A group that was shown before the reader read the epoch is in the tier in which the reader
// looked. Only the leader ends epochs, so the one that it reads lasts until it has used the answer.
type absences struct {
	size  int                       // places; fixed when the log is opened
	table atomic.Pointer[[]absence] // nil until the first entry
}

// absence is an entry of absences.
type absence struct {
	mu    sync.Mutex
	key   []byte // empty: there is none
	epoch epoch  // from before the tiers were asked
}

const (
	minAbsences  = 64
	maxAbsences  = 4096
	maxAbsentKey = 128 // bytes; longer keys are not remembered
)

// epoch is a time in which the hot tier forgets nothing and no group goes past it: a key that
// neither tier had, both asked in one epoch, is absent as long as the hot tier lacks it and
// the epoch lasts.
type epoch struct {
	edits uint64 // Log.edits: even, else no epoch lasts
	left  uint64 // store.Hot.Left: how often the hot tier has forgotten anything
}

// epoch returns the present one; false while a group goes past the hot tier.
func (l *Log) epoch() (epoch, bool) {
	t := epoch{l.edits.Load(), l.hot.Left()}
	return t, t.edits%2 == 0
}

// place returns where key stands, if it is remembered. Another key with the same place replaces it.
func (a *absences) place(table []absence, key []byte) *absence {
	return &table[maphash.Bytes(keyStateSeed, key)%uint64(len(table))]
}

// add notes that no tier had a key, all of them asked after t had been read.
func (a *absences) add(key []byte, t epoch) {
	if len(key) > maxAbsentKey {
		return
	}
	table := a.table.Load()
	if table == nil {
		made := make([]absence, a.size)
		a.table.CompareAndSwap(nil, &made)
		table = a.table.Load()
	}
	e := a.place(*table, key)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.key, e.epoch = append(e.key[:0], key...), t
}

// has reports whether a key, which the hot tier does not have, is absent at t, the present epoch.
func (a *absences) has(key []byte, t epoch) bool {
	table := a.table.Load()
	if table == nil {
		return false
	}
	e := a.place(*table, key)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.epoch == t && string(e.key) == string(key)
}

// missing notes, for conditions to come, that neither tier had anything of a key, asked after t.
func (r *read) missing(key []byte, t epoch, ok bool) {
	if ok && r.snap == nil {
		r.l.absent.add(key, t)
	}
}

// checkAbsent looks, in checked builds, for a key that is known to be absent.
func (t *tx) checkAbsent(ts *stagedSpace, hk, key []byte) error {
	if !invariants.Enabled {
		return nil
	}
	load := t.coldStreamState
	if slots(ts.policy) {
		load = t.coldSlotState
	}
	stored, err := load(ts, hk, key)
	invariants.Check(err != nil || stored == keyState{}, "%q, which a read did not find, has version %d", key, stored.version)
	return err
}

// knownAbsent reports whether a read has found that a key, which the hot tier does not have, is absent.
func (t *tx) knownAbsent(k []byte) bool {
	if t.indexed { // it may have written the key
		return false
	}
	now, ok := t.l.epoch()
	return ok && t.l.absent.has(k, now)
}
