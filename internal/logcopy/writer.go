package logcopy

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// writer puts records into the target: one batch for each time at which the source
// was committed to, within limits. Every batch moves the progress record on.
type writer struct {
	to     mainstem.Log
	o      *Options
	report *Report

	notes   notes
	version mainstem.Version  // of the progress record
	own     mainstem.Position // of the progress record when it was loaded
	clock   time.Time         // of the newest record of the target that is known
	synced  time.Time         // when the target was last brought to stable storage

	// fresh says that the target was empty when the run began and the source does not
	// change: a key of which only the newest record is kept then comes once.
	fresh bool
	// soon is the time at which records expire that are too short-lived to be copied
	// in their place: they would expire in the target while it is written.
	soon time.Time

	heads   heads
	batch   uint64 // number of the batch under construction
	scratch []byte

	pending []item
	bytes   int
	cursor  mainstem.Position // everything up to here is pending or done
	onDone  func()            // after each batch
}

// item is a record on its way into the target.
type item struct {
	sp    *space
	rec   mainstem.Record
	moved bool // to the end, out of its place
}

// add takes the next record of the source, which is lent.
func (w *writer) add(ctx context.Context, sp *space, r *mainstem.Record) error {
	if gone, late := w.outlived(sp, r); gone || late {
		if late {
			w.report.Late++
		}
		w.heads.forget(w.headKey(sp, r.Key))
		w.cursor = r.Position
		return nil
	}
	size := int(recordSize(r))
	full := len(w.pending) >= w.o.BatchWrites || w.bytes+size > w.o.BatchBytes
	if len(w.pending) > 0 && (full || !r.Time.Equal(w.pending[0].rec.Time)) {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	if !r.Live() {
		if err := w.prepareTombstone(ctx, sp, r); err != nil {
			return err
		}
	}
	w.pending = append(w.pending, item{sp: sp, rec: r.Clone()})
	w.bytes += size
	w.cursor = r.Position
	if r.Tombstone == mainstem.Expired {
		return w.flush(ctx) // the target may have one of its own: what follows must look
	}
	return nil
}

// outlived reports whether a record is beyond the age that its space allows, and
// whether it expires too soon to be copied in its place.
func (w *writer) outlived(sp *space, r *mainstem.Record) (gone, late bool) {
	if !r.Expires.IsZero() && !r.Expires.After(w.soon) {
		return false, true
	}
	age := sp.info.Policy.MaxAge
	return age > 0 && !r.Time.Add(age).After(w.soon), false
}

// flush commits what is pending.
func (w *writer) flush(ctx context.Context) error {
	if len(w.pending) == 0 {
		return nil
	}
	if err := w.commitItems(ctx, w.pending, w.cursor); err != nil {
		return err
	}
	clear(w.pending)
	w.pending, w.bytes = w.pending[:0], 0
	return nil
}

// commitItems commits items, in several batches if the target demands it, after which
// everything up to position is in the target.
func (w *writer) commitItems(ctx context.Context, items []item, position mainstem.Position) error {
	for range 2*len(items) + 1 {
		p, err := w.plan(ctx, items)
		if err != nil {
			return err
		}
		r, err := w.commit(ctx, p.batch, position)
		var e *mainstem.Error
		switch {
		case err == nil:
			return w.verify(p, items, r)
		case errors.Is(err, mainstem.ErrConflict) && errors.As(err, &e):
			w.unlearn(items)
			if err := w.learn(e, items); err != nil {
				return err
			}
		case len(items) == 1:
			return w.explain(err, &items[0].rec)
		case errors.Is(err, mainstem.ErrInvalid):
			w.unlearn(items)
			half := len(items) / 2
			if err := w.commitItems(ctx, items[:half], max(items[half-1].rec.Position, w.notes.Position)); err != nil {
				return err
			}
			return w.commitItems(ctx, items[half:], position)
		default:
			return err
		}
	}
	return mainstem.Errorf(mainstem.KindConflict, "copy", "others write to the target while it is copied into")
}

// learn takes the newest version of a key from a conflict.
func (w *writer) learn(e *mainstem.Error, items []item) error {
	if e.Want.Space == Space {
		return mainstem.Errorf(mainstem.KindConflict, "copy", "another copy into the same target is running").WithHint("let one of them end")
	}
	for i := range items {
		if items[i].rec.Space == e.Want.Space {
			w.heads.put(w.headKey(items[i].sp, e.Want.Key), head{version: e.Got})
			return nil
		}
	}
	return e
}

// unlearn forgets the heads that a batch which was not written had set.
func (w *writer) unlearn(items []item) {
	for i := range items {
		w.heads.forget(w.headKey(items[i].sp, items[i].rec.Key))
	}
}

// verify checks that a batch became what it was to be.
func (w *writer) verify(p *plan, items []item, r mainstem.Receipt) error {
	for i := range items {
		rec := &items[i].rec
		w.report.Records++
		w.report.Bytes += recordSize(rec)
		if rec.Tombstone == mainstem.Expired {
			w.heads.forget(w.headKey(items[i].sp, rec.Key))
		}
		at := p.at[i]
		if at < 0 || len(r.Versions) == 0 { // left to the target, or found to be written
			continue
		}
		if r.Time.After(rec.Time) && !items[i].moved {
			w.report.Later++
			w.notes.Later++ // with the next batch, if the plan did not know
		}
		switch got := r.Versions[at]; {
		case got == rec.Version:
		case got == 0 && !rec.Live(): // it has expired in the target, which says so itself
			w.heads.forget(w.headKey(items[i].sp, rec.Key))
		default:
			return spoiled(rec.Space, rec.Key, "the record with version %d was given version %d", rec.Version, got)
		}
	}
	if len(r.Versions) > 0 {
		w.clock = r.Time
	}
	w.onDone()
	return nil
}

// explain names the record that the target does not take.
func (w *writer) explain(err error, r *mainstem.Record) error {
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Kind != mainstem.KindInvalid && e.Kind != mainstem.KindUnsupported {
		return err
	}
	c := *e
	c.Op, c.Space, c.Key, c.Err = "copy", r.Space, r.Key, refusal(err, r)
	if c.Hint == "" {
		c.Hint = "raise the limit of the target, or remove the record from the source, and run the copy again"
	}
	return &c
}

// notesKept is how many batches' notes are kept, about.
const notesKept = 5000

// commit adds to b what every batch of a copy has and commits it. It tries again
// what may succeed later, and finds out what became of a batch whose outcome is
// unknown; then the receipt is empty.
func (w *writer) commit(ctx context.Context, b *mainstem.Batch, position mainstem.Position) (mainstem.Receipt, error) {
	next := w.notes
	next.Position = position
	if w.version > 0 {
		b.IfVersion(Space, progressKey, w.version)
		if w.batch%notesKept == 0 {
			b.Truncate(Space, progressKey, w.version)
		}
	}
	b.Put(Space, progressKey, encode(&next))
	if b.Durability == mainstem.DefaultDurability {
		b.Durability = mainstem.OS
		if now := w.o.Now(); now.Sub(w.synced) >= w.o.SyncEvery {
			b.Durability, w.synced = mainstem.Fsync, now
		}
	}
	w.batch++
	w.heads.rotate()
	r, err := w.attempt(ctx, b)
	if err != nil {
		return r, err
	}
	w.notes = next
	if n := len(r.Versions); n > 0 {
		w.version = r.Versions[n-1]
	}
	return r, nil
}

// commitTries is how often a commit is tried that the target cannot take at the moment.
const commitTries = 8

// commitAgain is the pause between those tries.
var commitAgain = backoff.Policy{First: 50 * time.Millisecond, Max: 10 * time.Second}

func (w *writer) attempt(ctx context.Context, b *mainstem.Batch) (r mainstem.Receipt, err error) {
	doubt := false // an earlier try may have been written, or be on its way
	for tries := 1; tries <= commitTries; tries++ {
		r, err = w.to.Commit(ctx, b)
		if err == nil || ctx.Err() != nil {
			return r, err
		}
		doubt = doubt || errors.Is(err, mainstem.ErrUnknownOutcome)
		again := errors.Is(err, mainstem.ErrUnknownOutcome) || errors.Is(err, mainstem.ErrUnavailable)
		if again && !commitAgain.Wait(ctx, tries) {
			return r, err
		}
		if doubt {
			if written, gerr := w.wasWritten(ctx); gerr == nil && written {
				return mainstem.Receipt{}, nil
			}
		}
		if !again {
			return r, err
		}
	}
	return r, err
}

// wasWritten reports whether the progress record is a newer one than is known: then
// the batch in doubt was written.
func (w *writer) wasWritten(ctx context.Context) (bool, error) {
	rec, err := w.to.Get(ctx, Space, progressKey)
	if err != nil || rec.Version <= w.version {
		return false, err
	}
	w.version, w.clock = rec.Version, rec.Time
	clear(w.heads.young)
	clear(w.heads.old)
	return true, nil
}

// headKey returns the key of heads for a key of a space, until the next call.
func (w *writer) headKey(sp *space, key []byte) []byte {
	w.scratch = append(binary.LittleEndian.AppendUint32(w.scratch[:0], sp.index), key...)
	return w.scratch
}

func recordSize(r *mainstem.Record) int64 {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Name) + len(r.Headers[i].Value)
	}
	return int64(n)
}
