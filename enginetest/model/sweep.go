package model

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// Sweep does now what engines do in the background: it removes records that
// expired or are too old, leaves an Expired tombstone where followers of the
// space must learn of it, drops old tombstones, and brings spaces below MaxBytes.
func (l *Log) Sweep(ctx context.Context) error {
	return l.change(ctx, "sweep", func() error {
		t := l.beginLocked(nil)
		for _, name := range slices.Sorted(maps.Keys(t.spaces)) {
			sp := t.spaces[name]
			for _, k := range slices.Sorted(maps.Keys(sp.keys)) {
				t.sweepKey(sp, k)
			}
			sp.shrink()
		}
		return nil
	})
}

func (t *tx) sweepKey(sp *space, name string) {
	k := sp.keys[name]
	if n := len(k.records); n > 0 && sp.forgets(&k.records[n-1], t.now) {
		k.records = nil // the whole history of a key that ended long ago
		return
	}
	tell := false // the newest record is a value whose time to live ran out
	kept := make([]mainstem.Record, 0, len(k.records))
	for i := range k.records {
		r := &k.records[i]
		switch {
		case sp.hidden(r, t.now):
			tell = r.Version == k.head && r.Live() && t.now.expired(r)
		case !sp.forgets(r, t.now):
			kept = append(kept, *r)
		}
	}
	k.records = kept
	if tell && !sp.policy.NoFeed {
		t.write(sp, k, []byte(name), mainstem.Record{Count: 1, Tombstone: mainstem.Expired})
	}
}

// forgets reports whether r is a tombstone that has been kept long enough.
func (sp *space) forgets(r *mainstem.Record, now moment) bool {
	age := cmp.Or(sp.policy.TombstoneAge, mainstem.DefaultTombstoneAge)
	return sp.policy.History > 0 && !r.Live() && now.older(r, age)
}

// shrink removes the oldest records until the space holds at most MaxBytes.
func (sp *space) shrink() {
	excess := sp.info().Bytes - sp.policy.MaxBytes
	if sp.policy.MaxBytes == 0 || excess <= 0 {
		return
	}
	var all []mainstem.Record
	for _, k := range sp.keys {
		all = append(all, k.records...)
	}
	slices.SortFunc(all, func(a, b mainstem.Record) int { return cmp.Compare(a.Position, b.Position) })
	for i := 0; excess > 0; i++ {
		k := sp.keys[string(all[i].Key)]
		k.records = k.records[1:]
		excess -= size(&all[i])
	}
}
