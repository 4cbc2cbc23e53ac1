package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/kv"
)

// Keeper makes a node a member of a cluster, renews its session, watches the other members, and
// removes those that are silent for longer than their TTL. Its methods may be called from many
// goroutines.
//
// It has three goroutines. watch follows the bucket and applies its entries to view. keep renews
// the session and, when it is over, begins the next; it does not run if the keeper only watches.
// reap removes silent members and leases without an owner.
//
//	no session --join--> session --renewal too late, or removed by another member--> no session
//	session --Close--> closed
//
// Between two sessions keep waits until the TTL of the old one has passed, so that work under its
// leases has the time that the package promises. No lock of a Keeper, Session or view is held while
// another of them is taken.
type Keeper struct {
	self        Member // without an epoch; without a name if the keeper only watches
	ttl         time.Duration
	retryPolicy backoff.Policy // at most a tenth of the TTL; random, so members do not retry all at once
	bucket      *kv.Bucket[record]
	log         mainstem.Log
	logger      *slog.Logger
	view        *view
	doubt       chan struct{} // capacity 1: an Acquire has failed, so reap looks for its lease

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup // the three goroutines
	left   chan struct{}  // closed when the first Close returns

	mu struct {
		sync.Mutex
		session *Session      // nil while there is none
		changed chan struct{} // closed and replaced when session changes
		closing bool          // set by Close, before ctx ends
	}
}

// Open joins a cluster. It returns when the node is a member and the keeper has seen all members
// and leases that were there before.
//
// If another member has the name, it may be an earlier process of this node that has crashed: Open
// waits until that one has been silent for its TTL. If it renews its session several times
// meanwhile, Open fails with Exists ([ErrHeld]). While the log cannot be reached, Open tries again
// until ctx ends. Options or a member out of range are Invalid. After Open has returned, ctx may
// end.
//
// A self without a name only watches. Such a keeper is no member and cannot acquire leases. It
// removes silent members like any other.
func Open(ctx context.Context, log mainstem.Log, self Member, o *Options) (*Keeper, error) {
	opts, err := o.withDefaults()
	if err == nil {
		err = self.validate()
	}
	if err != nil {
		return nil, err
	}
	bucket, err := kv.Open[record](log, opts.Bucket, &kv.Options{Codec: codec.JSON})
	if err != nil {
		return nil, err
	}
	k := &Keeper{self: self, ttl: opts.TTL, bucket: bucket, log: log, logger: opts.Logger, view: newView(), doubt: make(chan struct{}, 1), left: make(chan struct{})}
	k.retryPolicy = backoff.Policy{First: time.Millisecond, Max: k.ttl / 10, Jitter: 0.5}
	k.mu.changed = make(chan struct{})
	k.ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	k.done.Go(k.watch)
	if err := k.begin(ctx); err != nil {
		_ = k.Close(ctx) // ends a session; if ctx has ended, others remove it after its TTL
		return nil, err
	}
	k.done.Go(k.reap)
	return k, nil
}

// begin waits for the first view of the cluster and for the first session.
func (k *Keeper) begin(ctx context.Context) error {
	select {
	case <-k.view.synced:
	case <-ctx.Done():
		return canceled("join", ctx)
	}
	if k.self.Name == "" {
		return nil
	}
	s, err := k.join(ctx, 0)
	if err != nil {
		return err
	}
	k.install(s)
	k.done.Go(func() { k.keep(s) })
	return k.awaitSelf(ctx, s)
}

// awaitSelf waits until the view has the session s, and so everything that was written before it.
func (k *Keeper) awaitSelf(ctx context.Context, s *Session) error {
	for {
		changed := k.view.next()
		if m, ok := k.view.member(k.self.Name); ok && m.Epoch >= s.epoch {
			return nil
		}
		select {
		case <-changed:
		case <-s.done:
			return nil // it has ended already; keep begins another
		case <-ctx.Done():
			return canceled("join", ctx)
		}
	}
}

// Close leaves the cluster and waits for the keeper's goroutines. It ends the session with all its
// leases and deletes their entries, so that other members can have the keys at once. If the log
// cannot be reached, Close returns the error, and others remove the member after its TTL. Work
// under the leases should have ended before; later fenced batches fail. Closing twice is allowed:
// a later call waits for the first one, whose error it does not return.
func (k *Keeper) Close(ctx context.Context) error {
	k.mu.Lock()
	again := k.mu.closing
	k.mu.closing = true
	k.mu.Unlock()
	if again {
		select {
		case <-k.left:
			return nil
		case <-ctx.Done():
			return canceled("close", ctx)
		}
	}
	defer close(k.left)
	// The context ends first, then the session. If a session ends before the context, keep takes
	// it for a lost one and removes it from k.mu, and leave does not delete its entries. A session
	// that keep begins after the context has ended is ended by keep, so no session is left.
	k.cancel()
	if s := k.session(); s != nil {
		s.end()
	}
	k.done.Wait()
	s := k.session()
	k.install(nil)
	if s == nil {
		return nil
	}
	return k.leave(ctx, s)
}

// leave deletes the entries of a session, in one batch if that is possible.
func (k *Keeper) leave(ctx context.Context, s *Session) error {
	err := k.remove(ctx, s, s.owned())
	if errors.Is(err, mainstem.ErrConflict) {
		// A Release that has not returned yet may have deleted the entry of its lease. Without
		// the member entry, the remaining leases are not valid, and other members delete them.
		err = k.remove(ctx, s, nil)
	}
	if errors.Is(err, mainstem.ErrConflict) {
		return nil // another member has removed this one, and removes the leases
	}
	return err
}

// remove deletes the entries of a session and of leases. It fails with Conflict if one of them has
// another revision.
func (k *Keeper) remove(ctx context.Context, s *Session, leases map[string]*Lease) error {
	b := mainstem.NewBatch()
	k.bucket.DeleteTo(b, memberPrefix+k.self.Name, kv.IfRevision(kv.Revision(s.epoch)))
	k.bucket.DeleteTo(b, beatPrefix+k.self.Name)
	for key, l := range leases {
		k.bucket.DeleteTo(b, leasePrefix+key, kv.IfRevision(kv.Revision(l.epoch)))
	}
	_, err := k.log.Commit(ctx, b)
	return err
}

// Self returns the member of the keeper, with the epoch of the present session, or 0 if there is
// none.
func (k *Keeper) Self() Member {
	m := k.self
	if s := k.session(); s != nil {
		m.Epoch = s.epoch
	}
	return m
}

// Member returns a member by name, as far as the keeper has seen.
func (k *Keeper) Member(name string) (Member, bool) { return k.view.member(name) }

// Members returns all members in the order of their names, as far as the keeper has seen.
func (k *Keeper) Members() []Member { return k.view.all() }

// Holder returns the lease of a key, and whether there is one, as far as the keeper has seen.
func (k *Keeper) Holder(key string) (Held, bool) { return k.view.held(key) }

// Holders returns the leases of the keys that begin with prefix, in the order of the keys, as far
// as the keeper has seen.
func (k *Keeper) Holders(prefix string) []Held { return k.view.heldUnder(prefix) }

// Changed returns a channel that is closed when members or leases next change. Call it before you
// read them, so that no change is missed.
func (k *Keeper) Changed() <-chan struct{} { return k.view.next() }

// TTL returns the TTL of the keeper's own session.
func (k *Keeper) TTL() time.Duration { return k.ttl }

// Log returns the log of the cluster.
func (k *Keeper) Log() mainstem.Log { return k.log }

// Context returns a context that ends with Close, for work that lasts as long as the keeper.
func (k *Keeper) Context() context.Context { return k.ctx }

// Space returns the space of the cluster's bucket.
func (k *Keeper) Space() string { return k.bucket.Space() }

// Session returns the present session, or waits for the next. It fails with Canceled when ctx ends,
// and with Closed if the keeper is closed or only watches.
func (k *Keeper) Session(ctx context.Context) (*Session, error) {
	for {
		k.mu.Lock()
		s, changed, closing := k.mu.session, k.mu.changed, k.mu.closing
		k.mu.Unlock()
		switch {
		case closing || k.self.Name == "":
			return nil, mainstem.Errorf(mainstem.KindClosed, "wait for a session", "the keeper was closed")
		case s != nil && !s.Over():
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, canceled("wait for a session", ctx)
		case <-k.ctx.Done():
		}
	}
}

// session returns the present session, or nil.
func (k *Keeper) session() *Session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.session
}

// install makes s, which may be nil, the present session.
func (k *Keeper) install(s *Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.session = s
	close(k.mu.changed)
	k.mu.changed = make(chan struct{})
}

// reached is how far the watch of the bucket has come.
type reached struct {
	position mainstem.Position // of the last entry; 0: the next watch reads all entries
	at       time.Time         // wall clock when it was read: the monotonic one may stop while a machine is suspended
}

func (r *reached) set(p mainstem.Position) { r.position, r.at = p, time.Now().Round(0) }

// resumeWithin is how long after the last entry a watch may continue behind it. It is far below
// [mainstem.DefaultTombstoneAge], after which the log no longer has the deletions.
const resumeWithin = time.Hour

// watch applies the entries of the bucket to the view until Close. After an error it continues
// behind the last entry if the log was not available and that entry is not old, else from the
// beginning.
func (k *Keeper) watch() {
	var last reached
	for attempt := 0; k.ctx.Err() == nil; attempt++ {
		began := time.Now()
		if began.Round(0).Sub(last.at) > resumeWithin {
			last = reached{}
		}
		err := k.follow(&last)
		if k.ctx.Err() != nil {
			return
		}
		if err != nil {
			if !errors.Is(err, mainstem.ErrUnavailable) {
				last = reached{} // for instance, the bucket was dropped: read all of it again
			}
			k.logger.Warn("cannot watch the cluster's bucket", "bucket", k.bucket.Name(), "error", err)
		}
		if time.Since(began) > k.ttl {
			attempt = 0
		}
		k.retryPolicy.Wait(k.ctx, attempt+1)
	}
}

// follow applies the entries of the bucket after last, or all if that is zero, and then the changes
// as they come. It keeps in last from where the next call can continue.
//
// A watch from the beginning yields all present entries, then a marker, then changes. Entries that
// are in the view but not before the marker were deleted meanwhile: they are dropped at the marker.
// Until then last stays zero, so that an error before the marker makes the next call begin again.
func (k *Keeper) follow(last *reached) error {
	var present map[string]bool // keys before the marker of a watch from the beginning; else nil
	if last.position == 0 {
		present = make(map[string]bool)
	}
	for e, err := range k.bucket.Watch(k.ctx, &kv.WatchOptions{After: last.position}) {
		switch {
		case errors.Is(err, mainstem.ErrCorrupt) && e.Key != "":
			k.logger.Warn("a record of the cluster cannot be read", "key", e.Key, "error", err)
			continue
		case err != nil:
			return err
		case e.Op == kv.OpSynced:
			if present != nil {
				k.view.drop(present)
				present = nil
			}
			last.set(e.Position)
			continue
		}
		k.view.apply(&e)
		if present != nil {
			present[e.Key] = true
		} else {
			last.set(e.Position)
		}
	}
	return nil
}

// canceled returns the error of a wait whose ctx has ended.
func canceled(op string, ctx context.Context) error {
	return mainstem.Ended(ctx, op, time.Time{}, "the log that holds the leases")
}
