package logcopy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mainstemdev/mainstem"
)

// plan is a batch that brings about some records.
type plan struct {
	batch *mainstem.Batch
	at    []int // for each record the index of its write, -1 if the target writes it itself
	time  time.Time
}

// plan makes the batch for items, which have one time.
func (w *writer) plan(ctx context.Context, items []item) (*plan, error) {
	p := &plan{batch: mainstem.NewBatch(), at: make([]int, len(items)), time: items[0].rec.Time}
	if w.clock.After(p.time) {
		p.time = w.clock
		w.notes.Later++ // with this batch
	}
	p.batch.Time = p.time
	for i := range items {
		if err := w.planRecord(ctx, p, i, &items[i]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// planRecord adds the writes that bring about one record: a filler takes the versions
// before it that no record holds, and goes again in the same batch.
func (w *writer) planRecord(ctx context.Context, p *plan, i int, it *item) error {
	r := &it.rec
	before := r.First() - 1
	newest, err := w.newest(ctx, p.batch, it, before)
	if err != nil {
		return err
	}
	expired := r.Tombstone == mainstem.Expired
	if expired && newest > 0 && (newest == before || newest == r.Version) {
		p.at[i] = -1 // the target holds the record too, and ends it as the source did
		return nil
	}
	if newest > before {
		return spoiled(r.Space, r.Key, "the target is at version %d, and version %d to %d is to be written", newest, r.First(), r.Version)
	}
	b := p.batch
	fillers := fill(b, it.sp, r.Key, newest, before, r.Live())
	switch r.Tombstone {
	case mainstem.Live:
		write := mainstem.Write{Op: mainstem.OpPut, Space: r.Space, Key: r.Key, Value: r.Value, Headers: r.Headers, Count: r.Count}
		if !r.Expires.IsZero() {
			write.TTL = max(r.Expires.Sub(p.time), 1)
		}
		b.Add(write)
	case mainstem.Purged:
		b.Add(mainstem.Write{Op: mainstem.OpPurge, Space: r.Space, Key: r.Key, Headers: r.Headers})
	default:
		b.Add(mainstem.Write{Op: mainstem.OpDelete, Space: r.Space, Key: r.Key, Headers: r.Headers})
	}
	p.at[i] = b.Len() - 1
	if r.Tombstone == mainstem.Deleted || expired {
		remove(b, it.sp, r.Key, fillers)
	}
	if it.moved {
		b.Put(Space, movedKey(r.Space, r.Key, r.Version), nil)
	}
	w.heads.put(w.headKey(it.sp, r.Key), head{r.Version, w.batch})
	return nil
}

// fill adds records that take the versions above newest up to before, and removes
// them at once unless a tombstone needs them: it is written for a live key only. It
// returns the versions of those that are left.
func fill(b *mainstem.Batch, sp *space, key []byte, newest, before mainstem.Version, live bool) (left []mainstem.Version) {
	for newest < before {
		n := min(before-newest, math.MaxUint32)
		newest += n
		b.Add(mainstem.Write{Op: mainstem.OpPut, Space: sp.info.Name, Key: key, Count: uint32(n)})
		if newest == before && !live {
			return []mainstem.Version{newest}
		}
		if newest < before || sp.work.History != 1 { // else the record itself supersedes it
			b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: sp.info.Name, Key: key, Version: newest})
		}
	}
	return nil
}

// remove takes away the fillers that a tombstone needed.
func remove(b *mainstem.Batch, sp *space, key []byte, fillers []mainstem.Version) {
	if sp.work.History == 1 {
		return // superseded
	}
	for _, v := range fillers {
		b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: sp.info.Name, Key: key, Version: v})
	}
}

// newest returns the newest version of the key of it in the target, as far as b
// writes it, and adds the condition that it is so.
func (w *writer) newest(ctx context.Context, b *mainstem.Batch, it *item, before mainstem.Version) (mainstem.Version, error) {
	k := w.headKey(it.sp, it.rec.Key)
	h, known := w.heads.get(k)
	switch {
	case known && h.batch == w.batch:
		return h.version, nil
	case known:
	case before == 0, w.fresh && it.sp.info.Policy.History == 1:
		return 0, nil // the receipt will tell if it was not so
	default:
		v, err := probe(ctx, w.to, it.rec.Space, it.rec.Key)
		if err != nil {
			return 0, err
		}
		h.version = v
	}
	if h.version > 0 {
		b.IfVersion(it.rec.Space, it.rec.Key, h.version)
	}
	return h.version, nil
}

// probe returns the newest version that a key was ever given, also if no record of it
// is left: a condition that cannot hold makes the log say it, and writes nothing.
func probe(ctx context.Context, log mainstem.Log, space string, key []byte) (mainstem.Version, error) {
	b := mainstem.NewBatch()
	b.IfVersion(space, key, neverVersion)
	_, err := log.Commit(ctx, b)
	var e *mainstem.Error
	if errors.As(err, &e) && e.Kind == mainstem.KindConflict {
		return e.Got, nil
	}
	if err == nil {
		err = fmt.Errorf("key %q of space %s claims to have version %d", key, space, neverVersion)
	}
	return 0, err
}

// prepareTombstone gives the space of r, for the time being, the policy under which
// the tombstone r becomes what it is at the source.
func (w *writer) prepareTombstone(ctx context.Context, sp *space, r *mainstem.Record) error {
	if r.Tombstone == mainstem.Expired {
		w.report.ExpiryTombstones++
	}
	if sp.info.Policy.History == 0 {
		return nil
	}
	p := sp.work
	p.TombstoneAge = w.tombstoneAge(sp, r)
	if tombstoneAge(p) == tombstoneAge(sp.work) {
		p.TombstoneAge = sp.work.TombstoneAge
	}
	// The filler before a tombstone takes the place of a record.
	if h := sp.info.Policy.History; h > 1 && h < mainstem.MaxHistory && r.First() > 1 {
		p.History = max(p.History, h+1)
	}
	return w.alter(ctx, sp, p)
}

// tombstoneAge returns the age that a policy must allow for the tombstone r.
func (w *writer) tombstoneAge(sp *space, r *mainstem.Record) time.Duration {
	if !r.Expires.IsZero() {
		return r.Expires.Sub(r.Time)
	}
	age := tombstoneAge(sp.info.Policy)
	if age > 0 && !r.Time.Add(age).After(w.soon) {
		return -1 // the source keeps it longer than its policy says
	}
	return sp.info.Policy.TombstoneAge
}

// tombstoneAge returns for how long a policy keeps tombstones, -1: always.
func tombstoneAge(p mainstem.Policy) time.Duration {
	switch {
	case p.TombstoneAge < 0:
		return -1
	case p.TombstoneAge == 0:
		return mainstem.DefaultTombstoneAge
	}
	return p.TombstoneAge
}

// refusal says what the target refused.
func refusal(err error, r *mainstem.Record) error {
	return fmt.Errorf("the target does not take version %d, a record of %d bytes with a value of %d bytes: %w", r.Version, recordSize(r), len(r.Value), err)
}
