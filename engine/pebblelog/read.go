package pebblelog

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/invariants"
)

// view answers reads: from the log as it is when the read begins, or from a
// snapshot.
type view struct {
	l    *Log
	db   pebble.Reader // the database, or a Pebble snapshot
	snap *Snapshot     // nil: the log
}

func (l *Log) view() view { return view{l: l, db: l.db} }

// visible reports whether a reader sees the record, which was rebased, at m in a space
// whose records live for maxAge ns (0: without end).
func (m *moment) visible(b *format.Body, maxAge int64) bool {
	return !b.VersionMarker && !m.Over(b.Clock, b.Expires, maxAge)
}

// read is one read under way in one space.
type read struct {
	view
	op     string
	s      *space
	slots  bool
	at     moment // zero until it is needed: reading the clock takes as long as a lookup
	maxAge int64
	steps  int
}

// begin starts a read; end must be called if it succeeds.
func (v view) begin(ctx context.Context, op, spaceName string) (read, error) {
	if err := ctx.Err(); err != nil {
		return read{}, mainstem.Ended(ctx, op, time.Time{}, "")
	}
	if !v.readers().begin() {
		return read{}, &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	}
	s, err := v.find(op, spaceName)
	if err != nil {
		v.readers().end()
		return read{}, err
	}
	return read{view: v, op: op, s: s, slots: slots(s.policy.Load()), maxAge: v.maxAge(s)}, nil
}

func (v view) find(op, name string) (*space, error) {
	if v.snap == nil {
		return v.l.find(op, name)
	}
	if s := v.snap.spaces.byName[name]; s != nil {
		return s, nil
	}
	return nil, &mainstem.Error{Kind: mainstem.KindNotFound, Op: op, Space: name}
}

// moment returns the time of the view.
func (v view) moment() moment {
	if v.snap != nil {
		return v.snap.at
	}
	return v.l.moment()
}

// maxAge returns how long records of s live, ns, 0 if they do not get old.
func (v view) maxAge(s *space) int64 {
	if v.snap != nil {
		return v.snap.maxAges[s.id]
	}
	return int64(s.policy.Load().MaxAge)
}

// readers counts the reads of the log, or of the snapshot.
func (v view) readers() *readers {
	if v.snap != nil {
		return &v.snap.readers
	}
	return &v.l.readers
}

func (r *read) end() { r.readers().end() }

func (r *read) visible(b *format.Body) bool {
	if b.Expires == 0 && r.maxAge == 0 {
		return !b.VersionMarker
	}
	if r.at.Now == 0 {
		r.at = r.moment()
	}
	r.at.rebase(b)
	return r.at.visible(b, r.maxAge)
}

// head returns the position up to which the view shows what was committed.
func (v view) head() uint64 {
	if v.snap != nil {
		return v.snap.position
	}
	return v.l.position.Load()
}

// awaitPublished waits until everything the read may have seen is published.
func (v view) awaitPublished(ctx context.Context, op string) error {
	if v.snap != nil || !v.l.commitGate.closed() {
		return nil
	}
	began := time.Now()
	if err := v.l.commitGate.wait(ctx); err != nil {
		return mainstem.Ended(ctx, op, began, "what was read to be published")
	}
	return nil
}

// doubtful returns the error for a record whose group Pebble failed to take whole: it is
// in the journal, and the next open shows all of it.
func (v view) doubtful(op string, b *format.Body) error {
	if b.Position <= v.head() {
		return nil
	}
	f := v.l.failure.Load()
	if f == nil {
		return nil
	}
	return mainstem.Errorf(mainstem.KindUnavailable, op, "the newest record belongs to a commit that failed with its outcome unknown").WithHint(f.Hint)
}

// Get implements [mainstem.Reader].
func (l *Log) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	return l.view().get(ctx, space, key)
}

func (v view) get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	if err := mainstem.ValidateKey(key); err != nil {
		return mainstem.Record{}, err
	}
	r, err := v.begin(ctx, "get", space)
	if err != nil {
		return mainstem.Record{}, err
	}
	defer r.end()
	rec, err := r.newest(ctx, key)
	if err == nil && rec.Version == 0 {
		return rec, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "get", Space: space, Key: bytes.Clone(key)}
	}
	return rec, mapError("get", err)
}

// newest returns the newest record of key, or one of version 0.
func (r *read) newest(ctx context.Context, key []byte) (mainstem.Record, error) {
	if r.slots {
		return r.getSlot(ctx, key)
	}
	return r.getNewest(ctx, key)
}

// getSlot returns the record in the slot of key, or one of version 0.
func (r *read) getSlot(ctx context.Context, key []byte) (mainstem.Record, error) {
	var stack [128]byte
	k := format.AppendSlotKey(stack[:0], r.s.id, key)
	if r.neverWritten(k) {
		return mainstem.Record{}, nil
	}
	epoch, steady := r.l.epoch()
	if b, ok, err := r.hotBody(k); ok {
		if err != nil {
			return mainstem.Record{}, err
		}
		return r.own(ctx, key, &b)
	}
	val, closer, err := r.db.Get(k)
	if err == pebble.ErrNotFound {
		r.missing(k, epoch, steady)
		return mainstem.Record{}, r.awaitPublished(ctx, r.op)
	}
	if err != nil {
		return mainstem.Record{}, err
	}
	defer closer.Close()
	b, err := format.DecodeBody(val)
	if err != nil {
		return mainstem.Record{}, err
	}
	return r.own(ctx, key, &b)
}

// neverWritten reports whether no record was ever written to a key, given that of its slot
// or the prefix of its records. It knows that of most new keys of spaces that are new, too.
// No tier need be asked for these, nor a group in flight awaited: it is not visible yet.
func (r *read) neverWritten(k []byte) bool {
	never := r.s.fresh && !r.l.written.Has(k)
	if invariants.Enabled && never {
		_, there := r.l.hot.Get(k)
		it, err := r.l.db.NewIter(&pebble.IterOptions{LowerBound: k, UpperBound: format.AppendSuccessor(nil, k)})
		if err == nil {
			there = there || it.First() && bytes.HasPrefix(it.Key(), k) && (!r.slots || len(it.Key()) == len(k))
			_ = it.Close()
		}
		invariants.Check(!there || r.l.written.Has(k), "%q is there, and the filter denies it", k)
	}
	return never
}

// own returns a copy of the record that belongs to the caller, or one of version 0
// if it is no live value.
func (r *read) own(ctx context.Context, key []byte, b *format.Body) (mainstem.Record, error) {
	if b.Position > r.head() || b.VersionMarker { // a marker may have no position
		if err := r.awaitPublished(ctx, r.op); err != nil {
			return mainstem.Record{}, err
		}
		if err := r.doubtful(r.op, b); err != nil {
			return mainstem.Record{}, err
		}
	}
	if b.Tombstone != mainstem.Live || !r.visible(b) {
		return mainstem.Record{}, nil
	}
	return b.Own(r.s.name, key), nil
}

// getNewest returns the record of the newest version of key, or one of version 0.
// If the newest was removed or has expired, an older one does not come back.
func (r *read) getNewest(ctx context.Context, key []byte) (mainstem.Record, error) {
	var s1, s2 [128]byte
	prefix := format.AppendPrefix(s1[:0], format.TagVersion, r.s.id, key)
	if r.neverWritten(prefix) {
		return mainstem.Record{}, nil
	}
	epoch, steady := r.l.epoch()
	if b, ok, err := r.hotBody(prefix); ok {
		if err != nil {
			return mainstem.Record{}, err
		}
		return r.own(ctx, key, &b)
	}
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: format.AppendPrefixEnd(s2[:0], prefix)})
	if err != nil {
		return mainstem.Record{}, err
	}
	defer it.Close()
	if !it.Last() {
		if err := it.Error(); err != nil {
			return mainstem.Record{}, err
		}
		r.missing(prefix, epoch, steady)
		return mainstem.Record{}, r.awaitPublished(ctx, r.op)
	}
	val, err := it.ValueAndErr()
	if err != nil {
		return mainstem.Record{}, err
	}
	b, err := format.DecodeBody(val)
	if err != nil {
		return mainstem.Record{}, err
	}
	return r.own(ctx, key, &b)
}

// Read implements [mainstem.Reader].
func (l *Log) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	return l.view().read(ctx, space, key, v)
}

func (v view) read(ctx context.Context, space string, key []byte, sel mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		if err := errors.Join(mainstem.ValidateKey(key), sel.Validate()); err != nil {
			yield(mainstem.Record{}, firstError(mainstem.ValidateKey(key), sel.Validate()))
			return
		}
		if sel.Follow {
			v.followKey(ctx, space, key, sel, yield)
			return
		}
		r, err := v.begin(ctx, "read", space)
		if err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		defer r.end()
		if _, err := r.versions(ctx, key, sel, yield); err != nil {
			yield(mainstem.Record{}, mapError("read", err))
		}
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// followKey yields what is there and then what comes, until the loop ends, the
// context does, or the log is closed.
func (v view) followKey(ctx context.Context, space string, key []byte, sel mainstem.Versions, yield func(mainstem.Record, error) bool) {
	if v.snap != nil {
		yield(mainstem.Record{}, snapshotFollow("read"))
		return
	}
	f := make(chan struct{}, 1)
	v.l.followers.Add(f, []string{space})
	defer v.l.followers.Remove(f, []string{space})
	left := sel.Limit
	for {
		r, err := v.begin(ctx, "read", space)
		if err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		more := true
		_, err = r.versions(ctx, key, sel, func(rec mainstem.Record, err error) bool {
			sel.From = rec.Version + 1
			left--
			more = yield(rec, err) && left != 0
			return more
		})
		r.end()
		if err != nil {
			yield(mainstem.Record{}, mapError("read", err))
			return
		}
		if !more || sel.To != 0 && sel.From > sel.To {
			return
		}
		sel.Limit = max(left, 0)
		if err := v.l.sleep(ctx, f, "read"); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
	}
}

// sleep waits for a signal of f, the end of ctx or of the log.
func (l *Log) sleep(ctx context.Context, f <-chan struct{}, op string) error {
	began := time.Now()
	select {
	case <-f:
		return nil
	case <-ctx.Done():
		return mainstem.Ended(ctx, op, began, "records")
	case <-l.done:
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	}
}

// versions yields the selected records of key. It returns false if yield did.
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

// walk goes over the records of one key.
type walk struct {
	*read
	it      *pebble.Iterator
	key     []byte
	sel     mainstem.Versions
	yield   func(mainstem.Record, error) bool
	left    int
	stopped bool // yield returned false
	full    bool // the limit is reached
	none    bool // Pebble has nothing of what versioned was called for

	body   format.Body
	lender format.Lender

	prefix, end, seek []byte // scratch
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

// emit yields w.body if it is selected; it returns false when the walk is over.
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

// versioned emits what Pebble has of prefix below end.
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
	if err := w.awaitPublished(ctx, w.op); err != nil {
		return false, err
	}
	w.body = b
	_, err = w.emit()
	return true, err
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

// stepEvery is how many records a longer read yields between two looks around.
const stepEvery = 64

// step is called for each record of a longer read: it notices the end of the
// context and of the log.
func (r *read) step(ctx context.Context) error {
	if r.steps++; r.steps%stepEvery != 0 {
		return nil
	}
	if r.readers().closed.Load() {
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: r.op}
	}
	if ctx.Done() != nil {
		if err := ctx.Err(); err != nil {
			return mainstem.Ended(ctx, r.op, time.Time{}, "")
		}
	}
	return nil
}
