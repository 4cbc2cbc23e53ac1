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

// Keeper makes a node a member of a cluster, renews its session, watches the other
// members, and removes those that are silent for longer than their TTL. It is safe
// for concurrent use.
type Keeper struct {
	self        Member
	ttl         time.Duration
	retryPolicy backoff.Policy // random, so that members do not come all at once; below a tenth of the TTL
	bucket      *kv.Bucket[record]
	log         mainstem.Log
	logger      *slog.Logger
	view        *view
	doubt       chan struct{} // gets a value when an Acquire has failed; holds one

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu struct {
		sync.Mutex
		session *Session      // nil while there is none
		changed chan struct{} // closed and replaced when session changes
		closing bool
	}
}

// Open joins a cluster and returns when the node is a member and has seen the others.
// If a member of that name is there, perhaps an earlier life of this node that
// crashed, it waits until that one has been silent for its TTL; it fails with Exists if it
// is not. A self without a name only watches: it is no member, and cannot have leases.
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
	k := &Keeper{self: self, ttl: opts.TTL, bucket: bucket, log: log, logger: opts.Logger, view: newView(), doubt: make(chan struct{}, 1)}
	k.retryPolicy = backoff.Policy{First: time.Millisecond, Max: k.ttl / 10, Jitter: 0.5}
	k.mu.changed = make(chan struct{})
	k.ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	k.done.Go(k.watch)
	if err := k.begin(ctx); err != nil {
		_ = k.Close(ctx) // it may have a session, which the others take for over after the TTL if ctx has ended
		return nil, err
	}
	k.done.Go(k.reap)
	return k, nil
}

// begin waits for the first view of the cluster and the first session.
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

// awaitSelf waits until the view shows the session: what Open returns has seen all
// that was there before it.
func (k *Keeper) awaitSelf(ctx context.Context, s *Session) error {
	for {
		changed := k.view.next()
		if m, ok := k.view.member(k.self.Name); ok && m.Epoch >= s.epoch {
			return nil
		}
		select {
		case <-changed:
		case <-s.done:
			return nil // it is lost already, and taken up again in the background
		case <-ctx.Done():
			return canceled("join", ctx)
		}
	}
}

// Close leaves the cluster: the session ends, and its leases with it, at once for
// those who want them. Closing twice is allowed. What was done under leases should
// have ended before; what goes on is fenced off. If the log cannot be reached, the others find out after the TTL.
func (k *Keeper) Close(ctx context.Context) error {
	k.mu.Lock()
	again := k.mu.closing
	k.mu.closing = true
	k.mu.Unlock()
	// First the context, then the session: keep would take a session that ends while the
	// context lasts for one that was lost, and drop it, and leave would not know of it. And
	// keep begins no session after the context has ended without ending it, so that the one
	// that is ended here is the last.
	k.cancel()
	if s := k.session(); s != nil && !again {
		s.end()
	}
	k.done.Wait()
	s := k.session()
	k.install(nil)
	if s == nil || again {
		return nil
	}
	return k.leave(ctx, s)
}

// leave removes the records of a session, in one batch if it can.
func (k *Keeper) leave(ctx context.Context, s *Session) error {
	err := k.remove(ctx, s, s.owned())
	if errors.Is(err, mainstem.ErrConflict) {
		// A lease may be gone whose Release has not returned yet. The records of leases
		// mean nothing without that of their session: the others sweep those that stay.
		err = k.remove(ctx, s, nil)
	}
	if errors.Is(err, mainstem.ErrConflict) {
		return nil // it was over already: the others clean up
	}
	return err
}

// remove deletes the records of a session and of those leases, or fails with Conflict
// if one of them is another's.
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

// Self returns the member that the keeper stands for, with the epoch of its present
// session, 0 while it has none.
func (k *Keeper) Self() Member {
	m := k.self
	if s := k.session(); s != nil {
		m.Epoch = s.epoch
	}
	return m
}

// Member returns a member by name.
func (k *Keeper) Member(name string) (Member, bool) { return k.view.member(name) }

// Members returns all members in the order of their names.
func (k *Keeper) Members() []Member { return k.view.all() }

// Holder returns who owns a key, as far as the keeper has seen.
func (k *Keeper) Holder(key string) (Held, bool) { return k.view.held(key) }

// Holders returns the owned keys that begin with prefix, in their order.
func (k *Keeper) Holders(prefix string) []Held { return k.view.heldUnder(prefix) }

// Changed returns a channel that is closed when members or owners next change. Take it
// before you look, so that no change is missed.
func (k *Keeper) Changed() <-chan struct{} { return k.view.next() }

// TTL returns how long the keeper's own session lasts without renewal.
func (k *Keeper) TTL() time.Duration { return k.ttl }

// Log returns the log of the cluster.
func (k *Keeper) Log() mainstem.Log { return k.log }

// Context returns a context that ends with Close: that of what lives as long as the keeper.
func (k *Keeper) Context() context.Context { return k.ctx }

// Space returns the space of the cluster's bucket.
func (k *Keeper) Space() string { return k.bucket.Space() }

// Session returns the present session, or waits for the next. It fails with Canceled
// when ctx ends first, Closed when the keeper is closed or only watches.
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

func (k *Keeper) session() *Session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.session
}

func (k *Keeper) install(s *Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.session = s
	close(k.mu.changed)
	k.mu.changed = make(chan struct{})
}

// watch keeps the view up to date until Close.
func (k *Keeper) watch() {
	var after mainstem.Position
	for attempt := 0; k.ctx.Err() == nil; attempt++ {
		began := time.Now()
		last, err := k.follow(after)
		after = last
		if k.ctx.Err() != nil {
			return
		}
		if err != nil {
			if !errors.Is(err, mainstem.ErrUnavailable) {
				after = 0 // the bucket was dropped, or the log is another: begin anew
			}
			k.logger.Warn("cannot watch the cluster's bucket", "bucket", k.bucket.Name(), "error", err)
		}
		if time.Since(began) > k.ttl {
			attempt = 0
		}
		k.retryPolicy.Wait(k.ctx, attempt+1)
	}
}

// follow reads the bucket and then its changes, all of it or from a position on. It
// returns the position up to which nothing was missed.
func (k *Keeper) follow(after mainstem.Position) (mainstem.Position, error) {
	present := make(map[string]bool) // keys seen before the marker of a watch from the beginning
	begun := after
	for e, err := range k.bucket.Watch(k.ctx, &kv.WatchOptions{After: after}) {
		switch {
		case errors.Is(err, mainstem.ErrCorrupt) && e.Key != "":
			k.logger.Warn("a record of the cluster cannot be read", "key", e.Key, "error", err)
			continue
		case err != nil:
			return after, err
		case e.Op == kv.OpSynced:
			if begun == 0 {
				k.view.drop(present)
				present = nil
			}
			after = e.Position
			continue
		}
		if present != nil {
			present[e.Key] = true
		}
		k.view.apply(&e)
		if begun > 0 || present == nil {
			after = e.Position
		}
	}
	return after, nil
}

func canceled(op string, ctx context.Context) error {
	return mainstem.Ended(ctx, op, time.Time{}, "the log that holds the leases")
}
