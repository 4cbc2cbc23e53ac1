package natslog

import (
	"sort"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// view is one key as a transaction sees it: the records of the state from index lo
// on, followed by those of the transaction, with edits. Streams may have millions
// of records, so a view copies none of them.
//
// Invariant: rec(lo) is not nil, unless n is 0.
type view struct {
	sp   *txSpace
	name []byte
	base []*record // of the state; not to be changed
	tail []*record // of the transaction

	head, floor uint64
	pos         uint64 // of the newest record ever; 0 if there is no trace of one
	lo          int    // index into base and then tail of the first record held
	n           int    // records held
	edits       []edit // the newest last
	epoch       int
}

// edit replaces the record that ends at a version; nil takes it out.
type edit struct {
	version uint64
	rec     *record
}

// view returns the view of a key. What changes in it until the next begin can be
// taken back.
func (t *tx) view(sp *txSpace, name []byte) *view {
	id := viewKey{sp.id, string(name)}
	v := t.views[id]
	if v == nil {
		v = &view{sp: sp, name: name}
		if sp.base != nil {
			if k := sp.base.keys[id.key]; k != nil {
				v.base, v.n, v.head, v.pos, v.floor = k.recs, len(k.recs), k.head, k.pos, k.floor
			}
		}
		t.views[id] = v
	}
	if v.epoch != t.epoch {
		t.saved.views = append(t.saved.views, savedView{v, *v})
		v.epoch = t.epoch
	}
	return v
}

// raw returns the i-th record before edits.
func (v *view) raw(i int) *record {
	if i < len(v.base) {
		return v.base[i]
	}
	return v.tail[i-len(v.base)]
}

// rec returns the i-th record, nil if it was taken out.
func (v *view) rec(i int) *record {
	r := v.raw(i)
	for j := len(v.edits) - 1; j >= 0; j-- {
		if v.edits[j].version == r.version {
			return v.edits[j].rec
		}
	}
	return r
}

func (v *view) total() int { return len(v.base) + len(v.tail) }

// at returns the index of the record that ends at version, or -1.
func (v *view) at(version uint64) int {
	i := v.lo + sort.Search(v.total()-v.lo, func(i int) bool { return v.raw(v.lo+i).version >= version })
	if i < v.total() && v.raw(i).version == version && v.rec(i) != nil {
		return i
	}
	return -1
}

// newest returns the record at the head if it is held and not hidden.
func (v *view) newest(now *wallclock.Moment) *record {
	if v.n == 0 || v.raw(v.total()-1).version != v.head {
		return nil
	}
	r := v.rec(v.total() - 1)
	if r == nil || v.sp.hidden(r, now) {
		return nil
	}
	return r
}

func (v *view) live(now *wallclock.Moment) bool {
	r := v.newest(now)
	return r != nil && r.tomb == mainstem.Live
}

// append adds r as the newest record and keeps the newest history records; 0 all.
func (v *view) append(r *record, history int) {
	if v.n == 0 {
		v.lo = v.total()
	}
	v.tail = append(v.tail, r)
	v.n++
	for history > 0 && v.n > history {
		v.dropFirst()
	}
	if v.rec(v.lo).version > v.floor {
		v.floor = v.rec(v.lo).version
	}
}

// dropFirst forgets the oldest record.
func (v *view) dropFirst() {
	v.n--
	for v.lo++; v.n > 0 && v.rec(v.lo) == nil; v.lo++ {
	}
}

// forget forgets all records.
func (v *view) forget() {
	v.n, v.lo, v.floor = 0, v.total(), v.head+1
}

// truncate forgets the records that end below version, and reports whether there
// were any.
func (v *view) truncate(version uint64) bool {
	before := v.n
	for v.n > 0 && v.rec(v.lo).version < version {
		v.dropFirst()
	}
	if v.n == before {
		return false
	}
	if v.n == 0 {
		v.forget()
	} else {
		v.floor = v.rec(v.lo).version
	}
	return true
}
