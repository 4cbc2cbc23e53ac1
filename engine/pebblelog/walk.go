package pebblelog

import (
	"bytes"
	"context"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/invariants"
)

// versions yields the selected records of key. It returns false if yield did.
//
// With slots, the newest record is in the slot and the others under older keys. If the hot tier
// has the slot, that is all there is (only). Otherwise one iterator shows both parts at one
// moment: a record that moves from the slot to an older key does so in one Pebble batch, so it
// is seen once. The parts do not overlap, so going through one and then the other keeps the order.
func (r *read) versions(ctx context.Context, key []byte, sel mainstem.Versions, yield func(mainstem.Record, error) bool) (bool, error) {
	w := walks.Get().(*walk)
	defer w.release()
	w.read, w.key, w.sel, w.yield, w.left = r, key, sel, yield, sel.Limit
	w.lender.Record.Space = r.s.name
	if !r.slots {
		w.prefix = format.AppendPrefix(w.prefix, format.TagVersion, r.s.id, key)
		if r.neverWritten(w.prefix) {
			return true, nil
		}
		err := w.stream(ctx)
		return !w.stopped, err
	}
	w.seek = format.AppendSlotKey(w.seek, r.s.id, key)
	if r.neverWritten(w.seek) {
		return true, nil
	}
	if found, err := w.only(ctx, w.seek); found || err != nil {
		return !w.stopped, err
	}
	if err := r.drain(); err != nil {
		return false, err
	}
	it, err := r.db.NewIter(nil)
	if err != nil {
		return false, err
	}
	defer it.Close()
	if err := r.awaitPublished(ctx, r.op); err != nil {
		return false, err
	}
	w.it = it
	w.prefix = format.AppendPrefix(w.prefix, format.TagOlder, r.s.id, key)
	w.end = format.AppendPrefixEnd(w.end, w.prefix)
	parts := []func() error{func() error { return w.versioned(ctx, w.prefix, w.end) }, w.slot}
	if sel.Reverse {
		parts[0], parts[1] = parts[1], parts[0]
	}
	for _, part := range parts {
		if err := part(); err != nil || w.stopped || w.full {
			return !w.stopped, err
		}
	}
	return true, nil
}

// walk goes over the records of one key. One goroutine uses it, and gives it back when the read is
// over. Invariant: versions that it emits ascend, or descend with sel.Reverse, and it emits
// nothing after stopped or full is set.
type walk struct {
	*read
	it      *pebble.Iterator // nil: Pebble is not asked; the one that opens it closes it
	key     []byte           // the caller's
	sel     mainstem.Versions
	yield   func(mainstem.Record, error) bool
	left    int  // records until the limit; 0 at first: none, and then it counts below 0
	stopped bool // yield returned false
	full    bool // the limit is reached
	none    bool // Pebble has nothing of what versioned was called for

	// What is lent to yield: valid until the next record is decoded.
	body   format.Body
	lender format.Lender

	prefix []byte // that the version keys, or older keys, of the key have
	end    []byte // where those in Pebble end: excluded
	seek   []byte // scratch
}

var walks = sync.Pool{New: func() any { return new(walk) }}

// release gives w back. What it has lent is not used any more.
func (w *walk) release() {
	w.lender.Reset()
	w.read, w.it, w.key, w.yield = nil, nil, nil, nil
	w.sel, w.left, w.stopped, w.full, w.none = mainstem.Versions{}, 0, false, false, false
	w.body = format.Body{}
	w.prefix, w.end, w.seek = w.prefix[:0], w.end[:0], w.seek[:0]
	walks.Put(w)
}

// emit yields w.body if it is selected; it returns false when the walk is over. A record spans
// the versions from first to b.Version: it is selected if any of them is.
func (w *walk) emit() (bool, error) {
	b := &w.body
	first := b.Version - uint64(b.Count) + 1
	if b.Version < uint64(w.sel.From) || w.sel.To != 0 && first > uint64(w.sel.To) || !w.visible(b) {
		return true, nil
	}
	if b.Position > w.head() {
		if err := w.doubtful(w.op, b); err != nil {
			return false, err
		}
	}
	w.lender.Fill(w.key, b)
	if !lend(w.yield, &w.lender.Record) {
		w.stopped = true
		return false, nil
	}
	w.left--
	w.full = w.left == 0
	return !w.full, nil
}

// lend yields a record whose bytes belong to the engine. In checked builds it yields
// a copy and spoils it afterwards, so that a loop body which keeps it is found out.
func lend(yield func(mainstem.Record, error) bool, r *mainstem.Record) bool {
	if !invariants.Enabled {
		return yield(*r, nil)
	}
	c := r.Clone()
	defer func() {
		invariants.Mangle(c.Key)
		invariants.Mangle(c.Value)
		for i := range c.Headers {
			invariants.Mangle(c.Headers[i].Value)
		}
	}()
	return yield(c, nil)
}

// versioned emits what Pebble has of prefix below end. A record is stored under its last version.
// Forward, the first record at or above From is the first one selected. Backward, To may be in
// the middle of a record, which is then stored above To: the walk starts with the first one at
// or above To, and emit leaves it out if it begins above To as well.
func (w *walk) versioned(ctx context.Context, prefix, end []byte) error {
	w.it.SetBounds(prefix, end)
	ok := false
	switch {
	case !w.sel.Reverse && w.sel.From <= 1:
		ok = w.it.First()
		w.none = !ok
	case !w.sel.Reverse:
		ok = w.it.SeekGE(w.seekKey(prefix, w.sel.From))
	case w.sel.To == 0:
		ok = w.it.Last()
		w.none = !ok
	default: // the record that holds To may end above it; emit sorts out the one behind
		ok = w.it.SeekGE(w.seekKey(prefix, w.sel.To))
		if !ok {
			if err := w.it.Error(); err != nil {
				return err // the next move would forget it
			}
			ok = w.it.Last()
		}
	}
	for ok {
		if err := w.step(ctx); err != nil {
			return err
		}
		val, err := w.it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := w.body.Decode(val); err != nil {
			return err
		}
		if w.passed(&w.body) {
			return nil
		}
		if more, err := w.emit(); !more || err != nil {
			return err
		}
		if w.sel.Reverse {
			ok = w.it.Prev()
		} else {
			ok = w.it.Next()
		}
	}
	return w.it.Error()
}

func (w *walk) seekKey(prefix []byte, v mainstem.Version) []byte {
	w.seek = format.AppendVersion(append(w.seek[:0], prefix...), uint64(v))
	return w.seek
}

// passed reports whether the walk has left the selection for good.
func (w *walk) passed(b *format.Body) bool {
	if w.sel.Reverse {
		return b.Version < uint64(w.sel.From)
	}
	return w.sel.To != 0 && b.Version-uint64(b.Count)+1 > uint64(w.sel.To)
}

// only emits the record that the hot tier has in a slot, if it has one. It is all that the key
// has: older records are moved by groups that take the slot out of the hot tier, and those that
// a version marker covers go when it is written over.
func (w *walk) only(ctx context.Context, k []byte) (found bool, err error) {
	b, found, err := w.hotBody(k)
	if !found || err != nil || b.VersionMarker {
		return false, err
	}
	return true, w.emitHot(ctx, b)
}

// emitHot emits a record that the hot tier has, when it is published.
func (w *walk) emitHot(ctx context.Context, b format.Body) error {
	if err := w.awaitPublished(ctx, w.op); err != nil {
		return err
	}
	w.body = b
	_, err := w.emit()
	return err
}

func (w *walk) slot() error {
	var s1 [128]byte
	k := format.AppendSlotKey(s1[:0], w.s.id, w.key)
	w.it.SetBounds(nil, nil)
	if !w.it.SeekGE(k) || !bytes.Equal(w.it.Key(), k) {
		return w.it.Error()
	}
	val, err := w.it.ValueAndErr()
	if err != nil {
		return err
	}
	if err := w.body.Decode(val); err != nil {
		return err
	}
	_, err = w.emit()
	return err
}
