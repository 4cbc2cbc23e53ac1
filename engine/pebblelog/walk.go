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
// With slots, the newest record is in the slot and the others are under older keys. If the hot
// tier has the slot, the key has no other records (only). Otherwise one iterator shows both
// parts at one moment: a record moves from the slot to an older key in one Pebble batch, so it
// is seen once. All versions in one part are below those in the other, so reading one part after
// the other keeps the order.
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

// walk visits the records of one key. One goroutine uses it, and calls release when the read is
// over. Invariant: the emitted versions ascend, or descend with sel.Reverse, and nothing is
// emitted after stopped or full is set.
type walk struct {
	*read
	it      *pebble.Iterator // nil: Pebble is not read; the function that opens it closes it
	key     []byte           // owned by the caller
	sel     mainstem.Versions
	yield   func(mainstem.Record, error) bool
	left    int  // records until the limit; without a limit it begins at 0 and counts below 0
	stopped bool // yield returned false
	full    bool // the limit is reached
	none    bool // Pebble has no key under the prefix that versioned was called for

	// Memory lent to yield, valid until the next record is decoded.
	body   format.Body
	lender format.Lender

	prefix []byte // common prefix of the version keys, or older keys, of the key
	end    []byte // upper bound, excluded, of the keys read from Pebble
	seek   []byte // scratch
}

var walks = sync.Pool{New: func() any { return new(walk) }}

// release returns w to the pool. Memory that it has lent must not be used any more.
func (w *walk) release() {
	w.lender.Reset()
	w.read, w.it, w.key, w.yield = nil, nil, nil, nil
	w.sel, w.left, w.stopped, w.full, w.none = mainstem.Versions{}, 0, false, false, false
	w.body = format.Body{}
	w.prefix, w.end, w.seek = w.prefix[:0], w.end[:0], w.seek[:0]
	walks.Put(w)
}

// emit yields w.body if it is selected. It returns false when the walk is over. A record spans
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

// lend yields a record whose bytes belong to the engine. In checked builds (the build tag
// invariants, or the race detector) it yields a copy and overwrites it afterwards, which exposes
// loop bodies that keep the bytes.
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

// versioned emits the records that Pebble has under prefix and below end. A record is stored
// under its last version. Forward, the first record at or above From is the first selected one.
// Backward, To may be in the middle of a record, which is stored above To. So the walk starts
// with the first record at or above To, and emit excludes it if it begins above To as well.
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
				return err // the next move would clear it
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

// passed reports whether no further record of the walk can be selected.
func (w *walk) passed(b *format.Body) bool {
	if w.sel.Reverse {
		return b.Version < uint64(w.sel.From)
	}
	return w.sel.To != 0 && b.Version-uint64(b.Count)+1 > uint64(w.sel.To)
}

// only emits the record that the hot tier has in a slot, if it has one. The key has no other
// records then: a group that moves older records takes the slot out of the hot tier, and the
// records behind a version marker are deleted when the marker is overwritten.
func (w *walk) only(ctx context.Context, k []byte) (found bool, err error) {
	b, found, err := w.hotBody(k)
	if !found || err != nil || b.VersionMarker {
		return false, err
	}
	return true, w.emitHot(ctx, b)
}

// emitHot emits a record of the hot tier after its group is published.
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
