package kv

import (
	"context"
	"errors"
	"iter"

	"github.com/mainstemdev/mainstem"
)

// WatchOptions says which entries [Bucket.Watch] yields. Nil and the zero value: the current
// values, the marker, then every change.
type WatchOptions struct {
	Prefix string // only keys that start with it

	// After resumes a watch: it yields everything committed after this position, then the marker,
	// then new changes, and no current values. 0 starts from the beginning.
	After mainstem.Position
	// UpdatesOnly leaves out the current values: the marker comes first.
	UpdatesOnly bool
	// History starts with all revisions that are kept, in the order of the log, in place of the
	// current values in the order of their keys.
	History bool

	MetaOnly      bool // entries without Value
	IgnoreDeletes bool // leave out deletions, purges and expiries
}

// Watch yields the changes of the table as they are committed. It yields first the current values
// in the order of their keys, then one marker, which is an entry with Op [OpSynced] and only a
// Position, and then the changes after it, as they happen, in the order of the log. No change is
// lost or reported twice between these phases. A table that does not exist yet is watched too, from
// its first write.
//
// The sequence ends when the loop body breaks, with a Canceled error when ctx ends, and with Closed
// when the log is closed. A value that cannot be decoded is handled as in [Bucket.List]: the loop
// may continue.
//
// # Resuming
//
// The Position of the marker, and of every entry after it, may be given as [WatchOptions.After] to
// another watch, which continues exactly there. With History, or an After above 0, this holds for
// every entry. The current values before the marker are not in the order of the log: if the loop
// ends there, start from the beginning. (The marker of an empty log is at 0, which starts from the
// beginning, too.) After DropTable, or if the watch was interrupted for longer than
// [Options.TombstoneAge], deletions may be missing: start from the beginning too.
//
// # Slow watches
//
// Nothing is buffered: a watch reads the log at the pace of the loop body, and a slow watch delays
// neither writers nor other watches. It finds only the revisions that the table still keeps: with
// History 1, only the newest revision of each key. Intermediate revisions may be skipped; the
// newest never is. A larger History skips fewer. Until the marker, the watch holds one read view of
// the log open.
//
// # Created or updated
//
// A value is reported as created if its key is known to have had no value before: because the value
// has revision 1, because its write had that condition (see [Op]), because the watch passed the end
// of the previous value, or because the table still keeps the previous revision. Otherwise it is
// reported as an update. This includes three cases of a key that was deleted and given a new value
// by an unconditional Put, in a table that keeps one revision: both happened before the watch began
// or resumed; the watch passed more than 65,536 other deletions in between; or the previous value
// expired while the times of the log stood still, because the clock had been set back, and no
// OpExpire was seen.
func (b *Bucket[T]) Watch(ctx context.Context, o *WatchOptions) iter.Seq2[Entry[T], error] {
	return func(yield func(Entry[T], error) bool) {
		w := watch[T]{Bucket: b, ctx: ctx, yield: yield}
		if o != nil {
			w.o = *o
		}
		if err := w.run(); err != nil {
			yield(Entry[T]{}, err)
		}
	}
}

// errStopped ends a watch after the loop body breaks.
var errStopped = errors.New("stopped")

// watch is one running Watch.
type watch[T any] struct {
	*Bucket[T]
	o     WatchOptions
	ctx   context.Context
	yield func(Entry[T], error) bool

	lookup bool // the table keeps more than the newest revision
	ends   ends
}

// run returns nil if the loop body broke.
func (w *watch[T]) run() error {
	err := w.phases()
	if err == errStopped {
		return nil
	}
	return err
}

func (w *watch[T]) phases() error {
	policy := w.policy
	if info, err := w.log.Space(w.ctx, w.space); err == nil {
		policy = info.Policy
	} else if !errors.Is(err, mainstem.ErrNotFound) {
		return err
	}
	if policy.NoFeed {
		return &mainstem.Error{Kind: mainstem.KindUnsupported, Op: "watch", Space: w.space, Err: errNoFeed}
	}
	w.lookup = policy.History != 1

	head, err := w.log.Head(w.ctx)
	if err != nil {
		return err
	}
	synced, err := w.catchUp(head)
	if err != nil {
		return err
	}
	if !w.yield(Entry[T]{Op: OpSynced, Position: synced}, nil) {
		return errStopped
	}
	_, err = w.feed(synced, true)
	return err
}

// catchUp yields the entries before the marker. It returns the position that the watch has reached,
// which is at least head unless the watch resumes from beyond head.
func (w *watch[T]) catchUp(head mainstem.Position) (mainstem.Position, error) {
	switch {
	case w.o.After > 0:
		last, err := w.feed(w.o.After, false)
		return max(last, head), err
	case w.o.UpdatesOnly:
		return head, nil
	case w.o.History:
		last, err := w.feed(0, false)
		return max(last, head), err
	}
	return w.current(head)
}

// current yields the values of the table as of one moment m, which is after head was read, and
// returns the position p from which the feed continues: the highest position that the scan meets,
// and at least head.
//
// Nothing is reported twice: a record between p and m would be the newest of its key at m, or
// superseded by another record between them, and the scan, which includes tombstones, would have
// met the newest. Nothing is lost: positions up to p are not above m, and the scan yields the
// newest record of each key at m.
func (w *watch[T]) current(head mainstem.Position) (mainstem.Position, error) {
	r := mainstem.Range{Prefix: []byte(w.o.Prefix), Tombstones: true}
	for r, err := range w.log.Scan(w.ctx, w.space, r) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return head, nil
		}
		if err != nil {
			return 0, err
		}
		head = max(head, r.Position)
		key := string(r.Key)
		w.ends.note(key, &r)
		if r.Live() {
			if err := w.emit(key, &r, opOf(&r)); err != nil {
				return 0, err
			}
		}
	}
	return head, nil
}

// feed yields the changes after a position and returns the position of the last record read.
func (w *watch[T]) feed(after mainstem.Position, follow bool) (mainstem.Position, error) {
	f := mainstem.Filter{Spaces: []string{w.space}, KeyPrefix: []byte(w.o.Prefix), After: after, Follow: follow}
	for r, err := range w.log.Feed(w.ctx, f) {
		if err != nil {
			return after, err
		}
		after = r.Position
		key := string(r.Key)
		op, err := w.opOf(key, &r)
		if err != nil {
			return after, err
		}
		w.ends.note(key, &r)
		if r.Live() || !w.o.IgnoreDeletes {
			if err := w.emit(key, &r, op); err != nil {
				return after, err
			}
		}
	}
	return after, nil
}

func (w *watch[T]) emit(key string, r *mainstem.Record, op Op) error {
	l := lent
	if w.o.MetaOnly {
		l = metaOnly
	}
	if !w.yield(w.entry("watch", key, r, op, l)) {
		return errStopped
	}
	return nil
}

// opOf returns the effect of r, from everything that the watch has seen; see Watch.
func (w *watch[T]) opOf(key string, r *mainstem.Record) (Op, error) {
	op := opOf(r)
	switch {
	case op != OpUpdate:
		return op, nil
	case w.ends.before(key, r):
		return OpCreate, nil
	case !w.lookup:
		return op, nil
	}
	previous := r.First() - 1
	v := mainstem.Versions{From: previous, To: previous, Limit: 1}
	for p, err := range w.log.Read(w.ctx, w.space, []byte(key), v) {
		switch {
		case errors.Is(err, mainstem.ErrNotFound): // the table was dropped meanwhile
		case err != nil:
			return op, err
		case !p.Live():
			op = OpCreate
		}
	}
	return op, nil
}
