package pebblelog

import (
	"context"
	"sort"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/store"
)

// hotBody returns the newest record that the hot tier has of a slot or of the key with a
// prefix; ok is false if it has none, or if it is not what the view shows.
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

// hotRecords returns the newest records of the key of a stream.
func (v view) hotRecords(prefix []byte) store.Records {
	if v.snap != nil {
		return store.Records{}
	}
	return v.l.hot.Records(prefix)
}

// Reads of streams, whose newest records may be in the hot tier and the others in Pebble.
//
// The hot tier has an end of the stream without gaps, or nothing of it. So the walk takes from
// Pebble what is below the first version of that end (boundCold), and the end from the hot
// tier. What Pebble has of it already is outside of the bounds, so nothing is emitted twice;
// what is below was in Pebble when the hot tier was asked, so nothing is missing.
//
// That holds while records are only appended. An edit may change both parts: openStream looks
// again if a group went to Pebble past the hot tier between its two looks.

// stream emits the records of a key in a space that keeps all history: the hot tier has the
// newest ones, and Pebble those before them, and maybe some of the others again. Their keys
// begin with w.prefix.
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

// tip emits the newest record of a key. It is not found if it must be looked for in Pebble,
// or if it is not visible.
func (w *walk) tip(ctx context.Context) (found bool, err error) {
	b, found, err := w.hotBody(w.prefix)
	if !found || err != nil || !w.visible(&b) {
		return false, err
	}
	return true, w.emitHot(ctx, b)
}

// openStream returns what the hot tier has under w.prefix, and opens w.it for the records
// before, which lie below w.end, unless there are none. A group that edits a stream is
// wholly in both or in none: edits has the same even value before the hot tier is asked and
// after the iterator is made, so no such group was shown in between. With nothing in the hot
// tier there is one look only, into Pebble, which is of one moment by itself.
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
		if err := w.awaitPublished(ctx, w.op); err != nil { // the edit may wait for Pebble
			return r, err
		}
	}
}

// boundCold sets w.end to where the records begin that the hot tier has, and reports whether
// those before are asked for.
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
	// Versions are never given twice: there is nothing before the first.
	return first > 1 && uint64(w.sel.From) < first, nil
}

// hotPart emits the records of the hot tier. They are those of the moment of openStream, whatever
// is appended or forgotten since: the arena keeps them.
func (w *walk) hotPart(ctx context.Context, r *store.Records) error {
	i, step := 0, 1
	if w.sel.Reverse {
		i, step = r.Len()-1, -1
	}
	if to := w.firstHot(); to > 1 {
		// The first one that ends at to or above. Backwards, it may begin above.
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

// firstHot returns the version at which the walk begins, 0 if it is at the end.
func (w *walk) firstHot() uint64 {
	if w.sel.Reverse {
		return uint64(w.sel.To)
	}
	return uint64(w.sel.From)
}

// searchVersion returns the place of the first of r whose version is at least v.
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
