package model

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// Commit makes every write of b true, or none.
func (l *Log) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	r, err := l.commit(ctx, b)
	return r, b.Explained(ctx, err)
}

func (l *Log) commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if err := b.Validate(l.limits); err != nil {
		return mainstem.Receipt{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(ctx, "commit"); err != nil {
		return mainstem.Receipt{}, notWritten(err)
	}
	if r, ok := l.mu.receipts[b.ID]; ok && b.ID != "" {
		r.Versions = slices.Clone(r.Versions)
		r.Duplicate = true
		return r, nil
	}
	t := l.beginLocked(b)
	r, err := t.run(b)
	if err != nil {
		t.rollback()
		return mainstem.Receipt{}, notWritten(err)
	}
	if b.ID != "" {
		kept := r
		kept.Versions = slices.Clone(r.Versions)
		l.mu.receipts[b.ID] = kept
	}
	l.wakeLocked()
	return r, nil
}

// tx applies one batch to the state. Whatever it changes it can undo.
type tx struct {
	*state
	now    moment
	time   time.Time // of the records it writes
	nextID *uint64
	undo   []func()
}

func (t *tx) rollback() {
	for _, f := range slices.Backward(t.undo) {
		f()
	}
}

func (t *tx) run(b *mainstem.Batch) (mainstem.Receipt, error) {
	if err := t.test(b.Conditions()); err != nil {
		return mainstem.Receipt{}, err
	}
	for _, e := range b.Ensures() {
		if t.spaces[e.Space] == nil {
			t.create(e.Space, e.Policy)
			t.undo = append(t.undo, func() { delete(t.spaces, e.Space) })
		}
	}
	if b.Len() == 0 {
		return mainstem.Receipt{}, nil
	}
	before, length, newest, latest := t.head, len(t.order), t.newest, t.latest
	t.undo = append(t.undo, func() { t.head, t.order, t.newest, t.latest = before, t.order[:length], newest, latest })
	r := mainstem.Receipt{Time: t.time, Versions: make([]mainstem.Version, b.Len())}
	for i, w := range b.Writes() {
		v, err := t.apply(w)
		if err != nil {
			return mainstem.Receipt{}, err
		}
		r.Versions[i] = v
	}
	if t.head > before {
		r.First, r.Last = before+1, t.head
	}
	return r, nil
}

// test checks the conditions against the state before the batch.
func (t *tx) test(conditions []mainstem.Condition) error {
	for _, c := range conditions {
		var version mainstem.Version
		var last mainstem.Position
		live := false
		if sp := t.spaces[c.Space]; sp != nil {
			if k := sp.keys[string(c.Key)]; k != nil {
				version, last, live = k.head, k.last, sp.live(k, t.now)
			}
		}
		ok := false
		switch c.Test {
		case mainstem.TestVersion:
			ok = version == c.Version
		case mainstem.TestAbsent:
			ok = !live
		case mainstem.TestExists:
			ok = live
		case mainstem.TestNotAfter:
			ok = last <= c.Position
		}
		if !ok {
			c.Key = bytes.Clone(c.Key)
			e := &mainstem.Error{Kind: mainstem.KindConflict, Op: "commit", Space: c.Space, Key: c.Key, Want: c, Got: version, GotLive: live}
			if c.Test == mainstem.TestNotAfter {
				e.GotPosition = last
			}
			return e
		}
	}
	return nil
}

func (t *tx) create(name string, p mainstem.Policy) {
	*t.nextID++
	t.spaces[name] = &space{id: *t.nextID, name: name, policy: clonePolicy(p), created: t.time, updated: t.time, keys: map[string]*key{}}
}

// apply makes one write true and returns the version it wrote, 0 if none.
func (t *tx) apply(w mainstem.Write) (mainstem.Version, error) {
	sp := t.spaces[w.Space]
	if sp == nil {
		return 0, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "commit", Space: w.Space}
	}
	k := sp.keys[string(w.Key)]
	if w.Op == mainstem.OpPut {
		return t.put(sp, w), nil
	}
	if k == nil {
		k = &key{} // never written: it has no records and stays out of the space
	}
	t.save(k)
	switch w.Op {
	case mainstem.OpDelete, mainstem.OpPurge:
		return t.end(sp, k, w), nil
	case mainstem.OpForget:
		k.records = nil
		return 0, nil
	case mainstem.OpTruncate:
		return 0, truncate(k, w)
	case mainstem.OpRewrite, mainstem.OpRemove:
		return 0, t.amend(sp, k, w)
	}
	return 0, mainstem.Errorf(mainstem.KindInvalid, "commit", "unknown operation %d", w.Op)
}

// save makes the change of k that follows undoable.
func (t *tx) save(k *key) {
	before := *k
	t.undo = append(t.undo, func() { *k = before })
}

func (t *tx) put(sp *space, w mainstem.Write) mainstem.Version {
	name := string(w.Key)
	k := sp.keys[name]
	if k == nil {
		k = &key{}
		sp.keys[name] = k
		t.undo = append(t.undo, func() { delete(sp.keys, name) })
	}
	t.save(k)
	r := mainstem.Record{Count: max(w.Count, 1), Headers: w.Headers.Clone(), Value: bytes.Clone(w.Value)}
	if w.TTL > 0 {
		r.Expires = wall(wallclock.ExpiresAt(t.now.Now, int64(w.TTL)))
	}
	return t.write(sp, k, w.Key, r)
}

// end writes the tombstone of a delete or purge if the key is live.
func (t *tx) end(sp *space, k *key, w mainstem.Write) mainstem.Version {
	if !sp.live(k, t.now) {
		return 0
	}
	r := mainstem.Record{Count: 1, Tombstone: mainstem.Deleted, Headers: w.Headers.Clone()}
	if w.Op == mainstem.OpPurge {
		r.Tombstone = mainstem.Purged
		k.records = nil
	}
	return t.write(sp, k, w.Key, r)
}

// write gives r the next version and the next position and appends it to k.
func (t *tx) write(sp *space, k *key, name []byte, r mainstem.Record) mainstem.Version {
	last, updated := sp.last, sp.updated
	t.undo = append(t.undo, func() { sp.last, sp.updated = last, updated })
	t.head++
	k.head, k.last = k.head+mainstem.Version(r.Count), t.head
	r.Space, r.Key, r.Version, r.Position, r.Time = sp.name, bytes.Clone(name), k.head, t.head, t.time
	t.latest = max(t.latest, t.now.Now)
	t.readings[t.head] = t.now.Now
	k.records = append(k.records, r)
	k.trim(sp.policy.History)
	sp.last, sp.updated, t.newest = t.head, t.time, t.time
	t.order = append(t.order, entry{t.head, sp.id, sp.name, string(name), k.head})
	return k.head
}

// trim keeps the newest history records; 0 keeps all.
func (k *key) trim(history int) {
	if history > 0 && len(k.records) > history {
		k.records = k.records[len(k.records)-history:]
	}
}

func truncate(k *key, w mainstem.Write) error {
	if len(k.records) == 0 {
		return nil
	}
	if w.Version > k.head+1 {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "commit", Space: w.Space, Key: bytes.Clone(w.Key),
			Err: fmt.Errorf("truncate before version %d from the future: the newest is %d; use at most %d", w.Version, k.head, k.head+1)}
	}
	i := 0
	for i < len(k.records) && k.records[i].Version < w.Version {
		i++
	}
	k.records = k.records[i:]
	return nil
}

// amend rewrites or removes the record that ends at the version of w.
func (t *tx) amend(sp *space, k *key, w mainstem.Write) error {
	i := k.at(w.Version)
	if i < 0 || sp.hidden(&k.records[i], t.now) {
		return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "commit", Space: w.Space, Key: bytes.Clone(w.Key),
			Err: fmt.Errorf("%s: no record ends at version %d", w.Op, w.Version)}
	}
	k.records = slices.Clone(k.records)
	if w.Op == mainstem.OpRemove {
		k.records = slices.Delete(k.records, i, i+1)
		return nil
	}
	r := &k.records[i]
	r.Headers = w.Headers.Clone()
	if r.Live() { // a tombstone has no value
		r.Value = bytes.Clone(w.Value)
	}
	return nil
}
