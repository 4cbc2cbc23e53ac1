package lease

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/uuid"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/kv"
)

// Lease is the ownership of a key. Its methods may be called from many goroutines.
//
//	acquiring --Acquire succeeds--> owned --Release, or end of the session--> over
//	acquiring --Acquire fails--> over
//
// The entry in the log may stay for a while after a lease is over, see [Session].
type Lease struct {
	keeper  *Keeper
	session *Session
	key     string
	epoch   uint64        // 0 while acquiring, then constant; under session.mu until Acquire returns
	done    chan struct{} // closed when the lease is over
	once    sync.Once
}

// Key returns the key that is owned.
func (l *Lease) Key() string { return l.key }

// Epoch returns the lease's epoch. Later owners of the key have higher ones. A system outside of
// the log can use it to refuse requests of earlier owners.
func (l *Lease) Epoch() uint64 { return l.epoch }

// Session returns the epoch of the session to which the lease belongs.
func (l *Lease) Session() uint64 { return l.session.epoch }

// Done returns a channel that is closed when the lease is over: it was released, or its session is
// over.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Valid reports whether the lease is not over. It reads the clock, so it does not depend on a timer
// that may be late.
func (l *Lease) Valid() bool {
	select {
	case <-l.done:
		return false
	default:
		return !l.session.Over()
	}
}

// Fence adds to b the conditions that the entries of the lease and of its session still have their
// epochs. Commit fails with Conflict, and writes nothing, once another node owns the key or could
// acquire it. That does not depend on clocks. b must be committed to the log of the cluster.
func (l *Lease) Fence(b *mainstem.Batch) {
	space := l.keeper.bucket.Space()
	b.IfVersion(space, []byte(leasePrefix+l.key), mainstem.Version(l.epoch))
	b.IfVersion(space, []byte(memberPrefix+l.keeper.self.Name), mainstem.Version(l.session.epoch))
}

// Release ends the lease and deletes its entry, so that others can acquire the key. The lease is
// over for its owner at once, even if Release fails, and the session may acquire the key again.
//
// If Release fails, because the log cannot be reached, the session repeats the deletion until it
// succeeds or the session is over. The pauses are at most a tenth of the TTL, so the key is free
// soon after the log can be reached again. Releasing again does nothing.
func (l *Lease) Release(ctx context.Context) error {
	if !l.end() {
		return nil
	}
	l.session.beginRelease(l)
	err := l.remove(ctx)
	if err != nil {
		l.session.releaseLater(l)
	}
	l.session.endRelease(l)
	return err
}

// remove deletes the lease's entry, unless it has a later epoch.
func (l *Lease) remove(ctx context.Context) error {
	b := mainstem.NewBatch()
	l.keeper.bucket.DeleteTo(b, leasePrefix+l.key, kv.IfRevision(kv.Revision(l.epoch)))
	_, err := l.keeper.log.Commit(ctx, b)
	if errors.Is(err, mainstem.ErrConflict) {
		return nil // it was deleted, or is that of another lease
	}
	return err
}

// end makes the lease over and reports whether it was not.
func (l *Lease) end() (news bool) {
	l.once.Do(func() {
		close(l.done)
		news = true
	})
	return news
}

// reserve records that l is being acquired. It returns false if the session owns the key or is
// acquiring it.
func (s *Session) reserve(l *Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[l.key] != nil {
		return false
	}
	s.leases[l.key] = l
	return true
}

// grant records the epoch of a lease that was acquired.
func (s *Session) grant(l *Lease, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.epoch = epoch
}

// disown removes l from the leases of the session.
func (s *Session) disown(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[l.key] == l {
		delete(s.leases, l.key)
	}
}

// beginRelease moves l from leases to releasing: its entry is about to be deleted.
func (s *Session) beginRelease(l *Lease) {
	s.mu.Lock()
	s.releasing = append(s.releasing, l)
	s.mu.Unlock()
	s.disown(l) // afterwards, so that its entry is accounted for at any moment
}

// endRelease removes l from releasing: its entry was deleted, or l is in unreleased.
func (s *Session) endRelease(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releasing = slices.DeleteFunc(s.releasing, func(other *Lease) bool { return other == l })
}

// accounts reports whether the entry h of this session is accounted for, see [Session].
func (s *Session) accounts(h Held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := func(l *Lease) bool { return l.key == h.Key && l.epoch == h.Epoch }
	return s.leases[h.Key] != nil || slices.ContainsFunc(s.releasing, is) || slices.ContainsFunc(s.unreleased, is)
}

// owned returns the leases that the session owns, by key, without those that are being acquired.
func (s *Session) owned() map[string]*Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	owned := maps.Clone(s.leases)
	maps.DeleteFunc(owned, func(_ string, l *Lease) bool { return l.epoch == 0 })
	return owned
}

// Acquire acquires the lease of a key. The other members can read value, such as an address, with
// it. It fails with Exists ([ErrHeld]) if another member, or this session, owns the key, with
// Unavailable ([ErrLost]) while the node has no session, and with Invalid for a key or value out of
// range. It does not wait for another owner. While the log cannot be reached, it tries again until
// ctx ends or the session is over.
//
// If the outcome of a failed Acquire is unknown, the key may be taken. The session deletes the
// lease as soon as it sees it in the log, and may acquire the key again before that.
func (k *Keeper) Acquire(ctx context.Context, key, value string) (*Lease, error) {
	if err := validateKey(key, value); err != nil {
		return nil, err
	}
	s := k.session()
	if s == nil || s.Over() {
		return nil, lost("acquire " + key)
	}
	l := &Lease{keeper: k, session: s, key: key, done: make(chan struct{})}
	if !s.reserve(l) {
		return nil, held("acquire", key, "this node")
	}
	if err := k.acquire(ctx, l, value); err != nil {
		s.disown(l)
		l.end()
		wake.Signal(k.doubt) // the entry may be written although the answer was lost
		return nil, err
	}
	return l, nil
}

// acquire is Acquire for a lease that is reserved.
func (k *Keeper) acquire(ctx context.Context, l *Lease, value string) error {
	for attempt := 0; ; attempt++ {
		epoch, err := k.tryAcquire(ctx, l.session, l.key, value)
		if l.session.Over() {
			return lost("acquire " + l.key)
		}
		if err == nil {
			l.session.grant(l, epoch)
			return nil
		}
		if err := k.retry(ctx, "acquire "+l.key, attempt, err); err != nil {
			return err
		}
	}
}

// tryAcquire is one attempt of acquire: it reads the entry of the key and replaces it if its
// owner's session has ended. It fails with Conflict if the entry, or this node's session, has
// changed meanwhile. If the outcome of the commit is unknown, it reads the entry again: the random
// ID shows whether this attempt has written it.
func (k *Keeper) tryAcquire(ctx context.Context, s *Session, key, value string) (epoch uint64, err error) {
	cur, err := k.bucket.Get(ctx, leasePrefix+key)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) && !errors.Is(err, mainstem.ErrCorrupt) {
		return 0, err
	}
	if err == nil {
		// An entry of this session is one that it wrote without learning of it.
		over := cur.Value.Node == k.self.Name && cur.Value.Session == s.epoch
		if !over {
			over, err = k.ended(ctx, cur.Value.Node, cur.Value.Session)
		}
		if err != nil {
			return 0, err
		}
		if !over {
			return 0, held("acquire", key, "node "+cur.Value.Node)
		}
	}
	id := uuid.Random().String()
	b := mainstem.NewBatch()
	k.bucket.ExpectTo(b, memberPrefix+k.self.Name, kv.IfRevision(kv.Revision(s.epoch)))
	k.bucket.PutTo(b, leasePrefix+key, record{ID: id, Node: k.self.Name, Session: s.epoch, Value: value}, kv.IfRevision(cur.Revision))
	r, err := k.log.Commit(ctx, b)
	if err == nil {
		return uint64(r.Versions[0]), nil
	}
	if errors.Is(err, mainstem.ErrUnknownOutcome) {
		if cur, gerr := k.bucket.Get(ctx, leasePrefix+key); gerr == nil && cur.Value.ID == id {
			return uint64(cur.Revision), nil
		}
	}
	return 0, err
}

// ended reports whether a session is over for good: its member entry was deleted or replaced. That
// cannot change any more.
func (k *Keeper) ended(ctx context.Context, node string, session uint64) (bool, error) {
	cur, err := k.bucket.Get(ctx, memberPrefix+node)
	if errors.Is(err, mainstem.ErrNotFound) {
		return true, nil
	}
	if err != nil && !errors.Is(err, mainstem.ErrCorrupt) {
		return false, err
	}
	return uint64(cur.Revision) != session, nil
}
