package pebblelog

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem/internal/invariants"
)

// absences has keys that reads have not found in any tier, by slot or by the prefix of the
// records, so that a condition in the next commit need not look for them in Pebble again. An
// entry is not removed when its key is written: it is used only if the hot tier does not have
// the key, and only in the epoch in which it was made. A new entry replaces another one in its
// place, so memory is bounded.
//
// Why an entry is correct: the reader reads the epoch, and then finds the key in neither tier.
// Suppose that the leader uses the entry in the same epoch, and the hot tier does not have the
// key. If a group had written the key after the reader looked, the group would be in the hot
// tier: no group bypasses the tier in the epoch, and it drops nothing in the epoch. So no group
// has written the key since. A group that was shown before the reader read the epoch is in a
// tier in which the reader looked. Only the leader ends epochs, so the epoch that it reads lasts
// until it has used the answer.
type absences struct {
	size  int                       // number of places; fixed when the log is opened
	table atomic.Pointer[[]absence] // nil until the first entry
}

// absence is an entry of absences.
type absence struct {
	mu    sync.Mutex
	key   []byte // empty: no entry
	epoch epoch  // read before the tiers
}

const (
	minAbsences  = 64
	maxAbsences  = 4096
	maxAbsentKey = 128 // bytes; longer keys are not added
)

// epoch is a time in which the hot tier drops nothing and no group bypasses it. If neither tier
// had a key, both asked in one epoch, the key is absent as long as the epoch lasts and the hot
// tier does not have it.
type epoch struct {
	edits uint64 // Log.edits; even, since an odd value is no epoch
	left  uint64 // store.Hot.Left: how often the hot tier has dropped anything
}

// epoch returns the present epoch. It returns false while a group is bypassing the hot tier.
func (l *Log) epoch() (epoch, bool) {
	t := epoch{l.edits.Load(), l.hot.Left()}
	return t, t.edits%2 == 0
}

// place returns the place of key in table. A new entry replaces an entry of another key there.
func (a *absences) place(table []absence, key []byte) *absence {
	return &table[maphash.Bytes(keyStateSeed, key)%uint64(len(table))]
}

// add records that no tier had key. The tiers must have been read after t.
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

// has reports whether key, which the hot tier must not have, is absent at t, the present epoch.
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

// missing records, for later conditions, that neither tier had a key. Both must have been read
// after t; without ok there was no epoch, and nothing is recorded.
func (r *read) missing(key []byte, t epoch, ok bool) {
	if ok && r.snap == nil {
		r.l.absent.add(key, t)
	}
}

// checkAbsent verifies, in checked builds, that a key that is known to be absent is
// in no tier.
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

// knownAbsent reports whether a read has found that a key, which the hot tier does not have, is
// absent.
func (t *tx) knownAbsent(k []byte) bool {
	if t.indexed { // it may have written the key
		return false
	}
	now, ok := t.l.epoch()
	return ok && t.l.absent.has(k, now)
}
