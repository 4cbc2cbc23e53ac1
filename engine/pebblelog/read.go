package pebblelog

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/invariants"
)

// Reads of one key, and what all reads have in common.
//
// A get takes no lock that a commit holds while it writes to the journal or to Pebble. Reads are
// correct because of the order in which a group becomes visible (commit.go) and the order in
// which a read looks:
//
//   - A read looks into the hot tier first, then into Pebble. From the moment a group is shown,
//     it is in the hot tier, in Pebble, or in both: the hot tier drops only groups that Pebble
//     has. So a read that finds nothing in the hot tier finds in Pebble what was there before.
//   - If the hot tier has a record of a key, it is the newest, and the read does not ask Pebble.
//   - A record above the head belongs to a group that is being shown. The read waits at the
//     commit gate until the group is published (awaitPublished), so that Head is never behind a
//     record that a caller has seen. A read that found nothing waits, too, since such a group
//     may have removed the key.
//   - If a record is still above the head after that wait, its group failed on its way to
//     Pebble. It is durable as was asked for, and its outcome was reported as unknown, so the
//     read fails with Unavailable (doubtful).
//   - Expired records are invisible at once, by the clock, whether or not the sweeper has
//     removed them. A read takes its moment once, when it first needs it, and judges all of its
//     records by it.
//
// A snapshot is a Pebble snapshot: its reads use Pebble only, never wait, and are judged by the
// moment at which it was taken.
//
// Close waits for reads under way (readers in log.go). Longer reads notice Close in step.

// view is the source of reads: the log as it is when a read begins, or a snapshot.
type view struct {
	l    *Log
	db   pebble.Reader // the database, or a Pebble snapshot
	snap *Snapshot     // nil: the log
}

func (l *Log) view() view { return view{l: l, db: l.db} }

// visible reports whether a reader sees the record, which must be rebased, at m in a space whose
// records live for maxAge ns (0: without end).
func (m *moment) visible(b *format.Body, maxAge int64) bool {
	return !b.VersionMarker && !m.Over(b.Clock, b.Expires, maxAge)
}

// read is one read under way in one space. One goroutine uses it. It is not affected if the
// policy is altered meanwhile: maxAge is the value at its beginning, and slots never changes.
type read struct {
	view
	op     string
	s      *space
	slots  bool   // of the policy
	at     moment // zero until needed: reading the clock takes as long as a lookup
	maxAge int64  // ns; 0: no limit
	steps  int    // calls of step
}

// begin starts a read. If it succeeds, the caller must call end.
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

// moment returns the moment of the snapshot, or the present one.
func (v view) moment() moment {
	if v.snap != nil {
		return v.snap.at
	}
	return v.l.moment()
}

// maxAge returns how long records of s live, in ns, or 0 if there is no limit.
func (v view) maxAge(s *space) int64 {
	if v.snap != nil {
		return v.snap.maxAges[s.id]
	}
	return int64(s.policy.Load().MaxAge)
}

// readers returns the counter of the reads of the log or of the snapshot.
func (v view) readers() *readers {
	if v.snap != nil {
		return &v.snap.readers
	}
	return &v.l.readers
}

// end must be called once, when memory that the read has lent is not used any more.
func (r *read) end() { r.readers().end() }

// visible reports whether the read sees b. It rebases b if the result depends on the clock.
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

// head returns the newest position that the view shows.
func (v view) head() uint64 {
	if v.snap != nil {
		return v.snap.position
	}
	return v.l.position.Load()
}

// awaitPublished waits until all groups that the read may have seen are published. It must be
// called after the last look into a tier: the read has not seen groups that are shown later.
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

// doubtful returns the error for a record of a group that Pebble did not take completely. The
// group is in the journal, and the next open shows all of it.
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

// newest returns the newest record of key, or a record of version 0.
func (r *read) newest(ctx context.Context, key []byte) (mainstem.Record, error) {
	if r.slots {
		return r.getSlot(ctx, key)
	}
	return r.getNewest(ctx, key)
}

// getSlot returns the record in the slot of key, or a record of version 0. It reads the epoch
// before it looks into either tier, as absences requires.
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

// neverWritten reports whether no record was ever written to a key, given its slot or the prefix
// of its records. It returns true for most new keys of new spaces, and only if it is certain.
// Then the read need not look into the tiers, nor wait for a group that is being shown: that
// group is not visible yet.
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

// own returns a copy of the record, owned by the caller, or a record of version 0 if it has no
// live value.
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

// getNewest returns the record of the newest version of key, or a record of version 0. If the
// newest one was removed or has expired, an older one does not reappear.
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

// followKey yields the present records and then new ones, until the loop or ctx ends or the log
// is closed. The follower is registered before the first read, so a record that is committed
// between a read and the sleep has sent its signal. sel.From moves with each record, so none is
// yielded twice. The read ends before the sleep, so Close does not wait for the sleep.
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

// sleep waits for a signal of f. It returns an error if ctx ends or the log is closed.
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

// stepEvery is the number of records that a longer read yields between two checks of ctx and of
// the log.
const stepEvery = 64

// step is called for each record of a longer read. It returns an error if ctx has ended or the
// log is closed.
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
