package pebblelog

import (
	"context"
	"sort"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/store"
)

// hotBody returns the newest record in the hot tier for a slot or for the prefix of a key. ok is
// false if there is none, or if the view is a snapshot.
func (r *read) hotBody(k []byte) (b format.Body, ok bool, err error) {
	if r.snap != nil {
		return b, false, nil
	}
	v, ok := r.l.hot.Get(k)
	if ok {
		err = b.Decode(v)
	}
	return b, ok, err
}

// hotRecords returns the newest records of a stream, as far as the hot tier has them.
func (v view) hotRecords(prefix []byte) store.Records {
	if v.snap != nil {
		return store.Records{}
	}
	return v.l.hot.Records(prefix)
}

// Reads of streams, whose newest records may be in the hot tier and the older ones in Pebble.
//
// The hot tier has the newest records of a stream without gaps, or none. The walk reads from
// Pebble the records below the first version in the hot tier (boundCold), and the others from
// the hot tier. Records that are in both tiers are outside of the bounds in Pebble, so none is
// emitted twice. The records below were in Pebble when the hot tier was asked, so none is
// missing.
//
// That holds as long as records are only appended. An edit may change both parts: openStream
// starts again if a group bypassed the hot tier between its two looks.

// stream emits the records of a key in a space that keeps all history. Their keys begin with
// w.prefix.
func (w *walk) stream(ctx context.Context) error {
	if w.sel == (mainstem.Versions{Reverse: true, Limit: 1}) {
		if found, err := w.tip(ctx); found || err != nil {
			return err
		}
	}
	epoch, steady := w.l.epoch()
	records, err := w.openStream(ctx)
	if err != nil {
		return err
	}
	if w.it != nil {
		defer w.it.Close()
	}
	if err := w.awaitPublished(ctx, w.op); err != nil {
		return err
	}
	if w.sel.Reverse {
		if err := w.hotPart(ctx, &records); err != nil {
			return err
		}
	}
	if w.it != nil && !w.stopped && !w.full {
		if err := w.versioned(ctx, w.prefix, w.end); err != nil {
			return err
		}
		if w.none && records.Len() == 0 {
			w.missing(w.prefix, epoch, steady)
		}
	}
	if w.sel.Reverse || w.stopped || w.full {
		return nil
	}
	return w.hotPart(ctx, &records)
}

// tip emits the newest record of a key if the hot tier has it. found is false if Pebble must be
// read, or if the record is not visible.
func (w *walk) tip(ctx context.Context) (found bool, err error) {
	b, found, err := w.hotBody(w.prefix)
	if !found || err != nil || !w.visible(&b) {
		return false, err
	}
	return true, w.emitHot(ctx, b)
}

// openStream returns the records of the hot tier under w.prefix, and opens w.it for the records
// before them, which lie below w.end, unless there are none. The two parts together show a group
// that edits the stream completely or not at all: edits has the same even value before the hot
// tier is asked and after the iterator is made, so no such group was shown in between. If the
// hot tier has nothing, only Pebble is read, and an iterator shows one moment.
func (w *walk) openStream(ctx context.Context) (r store.Records, err error) {
	for {
		edits := w.l.edits.Load()
		r = w.hotRecords(w.prefix)
		if cold, err := w.boundCold(&r); !cold || err != nil {
			return r, err
		}
		if w.l.betweenTiers != nil {
			w.l.betweenTiers()
		}
		if w.it, err = w.db.NewIter(nil); err != nil {
			return r, err
		}
		if r.Len() == 0 || edits%2 == 0 && w.l.edits.Load() == edits {
			return r, nil
		}
		if err := w.it.Close(); err != nil {
			return r, err
		}
		w.it = nil
		if err := w.awaitPublished(ctx, w.op); err != nil { // a group with an edit may be waiting for Pebble
			return r, err
		}
	}
}

// boundCold sets w.end to the first version that the hot tier has, and reports whether versions
// before it are selected.
func (w *walk) boundCold(r *store.Records) (cold bool, err error) {
	if r.Len() == 0 {
		w.end = format.AppendPrefixEnd(w.end[:0], w.prefix)
		return true, nil
	}
	if err := w.body.Decode(r.At(0)); err != nil {
		return false, err
	}
	first := w.body.Version - uint64(w.body.Count) + 1
	w.end = format.AppendVersion(append(w.end[:0], w.prefix...), first)
	// Versions are never given twice, so there is nothing before the first one.
	return first > 1 && uint64(w.sel.From) < first, nil
}

// hotPart emits the records of the hot tier. r shows the moment of openStream, whatever is
// appended or dropped since: its arena is not freed.
func (w *walk) hotPart(ctx context.Context, r *store.Records) error {
	i, step := 0, 1
	if w.sel.Reverse {
		i, step = r.Len()-1, -1
	}
	if to := w.firstHot(); to > 1 {
		// The first record that ends at or above to. Backwards, it may begin above to.
		var err error
		if i, err = searchVersion(r, to); err != nil {
			return err
		}
		if w.sel.Reverse && i == r.Len() {
			i--
		}
	}
	for ; i >= 0 && i < r.Len(); i += step {
		if err := w.step(ctx); err != nil {
			return err
		}
		if err := w.body.Decode(r.At(i)); err != nil {
			return err
		}
		if w.passed(&w.body) {
			return nil
		}
		if more, err := w.emit(); !more || err != nil {
			return err
		}
	}
	return nil
}

// firstHot returns the version at which the walk begins, or 0 for the newest one.
func (w *walk) firstHot() uint64 {
	if w.sel.Reverse {
		return uint64(w.sel.To)
	}
	return uint64(w.sel.From)
}

// searchVersion returns the index of the first record of r whose version is at least v.
func searchVersion(r *store.Records, v uint64) (place int, err error) {
	var b format.Body
	place = sort.Search(r.Len(), func(i int) bool {
		if derr := b.Decode(r.At(i)); derr != nil {
			err = derr
		}
		return b.Version >= v
	})
	return place, err
}
