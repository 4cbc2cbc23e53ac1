package pebblelog

import (
	"context"
	"sort"

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

// stream emits the records of a key in a space that keeps all history: the hot tier has the
// newest ones, and Pebble those before them, and maybe some of the others again.
func (w *walk) stream(ctx context.Context) error {
	var s1, s2 [128]byte
	prefix := format.AppendPrefix(s1[:0], format.TagVersion, w.s.id, w.key)
	records, end, err := w.openStream(ctx, prefix, s2[:0])
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
		if err := w.versioned(ctx, prefix, end); err != nil {
			return err
		}
	}
	if w.sel.Reverse || w.stopped || w.full {
		return nil
	}
	return w.hotPart(ctx, &records)
}

// openStream returns what the hot tier has under prefix, and opens w.it for the records
// before, which lie below end, unless there are none. A group that edits a stream is wholly
// in both or in none.
func (w *walk) openStream(ctx context.Context, prefix, scratch []byte) (r store.Records, end []byte, err error) {
	for {
		edits := w.l.edits.Load()
		r = w.hotRecords(prefix)
		first := uint64(1)
		if r.Len() == 0 {
			end = format.AppendPrefixEnd(scratch, prefix)
		} else {
			if err := w.body.Decode(r.At(0)); err != nil {
				return r, nil, err
			}
			if first = w.body.Version - uint64(w.body.Count) + 1; first == 1 {
				return r, nil, nil // versions are never given twice: there is nothing before
			}
			end = format.AppendVersion(append(scratch, prefix...), first)
			if !w.sel.Reverse && uint64(w.sel.From) >= first {
				return r, end, nil
			}
		}
		if w.it, err = w.db.NewIter(nil); err != nil {
			return r, nil, err
		}
		if r.Len() == 0 || edits%2 == 0 && w.l.edits.Load() == edits {
			return r, end, nil
		}
		if err := w.it.Close(); err != nil {
			return r, nil, err
		}
		w.it = nil
		if err := w.awaitPublished(ctx, w.op); err != nil { // the edit may wait for Pebble
			return r, nil, err
		}
	}
}

// hotPart emits the records of the hot tier.
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
