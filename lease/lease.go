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

// Lease is the ownership of a key.
type Lease struct {
	keeper  *Keeper
	session *Session
	key     string
	epoch   uint64        // session.mu guards it until Acquire has returned
	done    chan struct{} // closed when the lease is over
	once    sync.Once
}

// Key returns what is owned.
func (l *Lease) Key() string { return l.key }

// Epoch returns the lease's epoch: any later owner of the key has a higher one. Give
// it to what cannot be fenced by a batch, so that it can refuse an earlier owner.
func (l *Lease) Epoch() uint64 { return l.epoch }

// Session returns the epoch of the session that the lease belongs to.
func (l *Lease) Session() uint64 { return l.session.epoch }

// Done returns a channel that is closed when the lease is over: it was released, or
// its session is over.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Valid reports whether the lease is not over. It looks at the clock itself.
func (l *Lease) Valid() bool {
	select {
	case <-l.done:
		return false
	default:
		return !l.session.Over()
	}
}

// Fence adds to b the conditions that the lease is not over, at the batch's own place in the
// order of the log: Commit fails with Conflict, and writes nothing, once another owns
// the key, or could. It is exact whatever clocks say. The log must be the cluster's.
func (l *Lease) Fence(b *mainstem.Batch) {
	space := l.keeper.bucket.Space()
	b.IfVersion(space, []byte(leasePrefix+l.key), mainstem.Version(l.epoch))
	b.IfVersion(space, []byte(memberPrefix+l.keeper.self.Name), mainstem.Version(l.session.epoch))
}

// Release gives the key up. The lease is over for its owner from now on, and the session
// may acquire the key again. Release fails if the log cannot be reached: then the session
// tries again, until it succeeds or is over, and the others can have the key within a
// tenth of the TTL after the log answers again. Releasing again does nothing.
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

// remove deletes the lease's record. That of a later epoch stays.
func (l *Lease) remove(ctx context.Context) error {
	b := mainstem.NewBatch()
	l.keeper.bucket.DeleteTo(b, leasePrefix+l.key, kv.IfRevision(kv.Revision(l.epoch)))
	_, err := l.keeper.log.Commit(ctx, b)
	if errors.Is(err, mainstem.ErrConflict) {
		return nil // it is gone, or the key has another owner
	}
	return err
}

// end ends the lease and reports whether that is news.
func (l *Lease) end() (news bool) {
	l.once.Do(func() {
		close(l.done)
		news = true
	})
	return news
}

// reserve notes that a lease of the session is being acquired. It fails if that is so
// already, or the session has it.
func (s *Session) reserve(l *Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[l.key] != nil {
		return false
	}
	s.leases[l.key] = l
	return true
}

// grant notes the epoch of a lease that was acquired.
func (s *Session) grant(l *Lease, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.epoch = epoch
}

func (s *Session) disown(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[l.key] == l {
		delete(s.leases, l.key)
	}
}

// beginRelease disowns l, whose record is about to be deleted.
func (s *Session) beginRelease(l *Lease) {
	s.mu.Lock()
	s.releasing = append(s.releasing, l)
	s.mu.Unlock()
	s.disown(l) // after that: its record is accounted for at any moment
}

// endRelease notes that the record of l was deleted, or will be by releaseLater.
func (s *Session) endRelease(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releasing = slices.DeleteFunc(s.releasing, func(other *Lease) bool { return other == l })
}

// accounts reports whether the session knows why the record of h is there: it has the key or
// is acquiring it, or it is deleting, or will delete, the record of a lease that was released.
func (s *Session) accounts(h Held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := func(l *Lease) bool { return l.key == h.Key && l.epoch == h.Epoch }
	return s.leases[h.Key] != nil || slices.ContainsFunc(s.releasing, is) || slices.ContainsFunc(s.unreleased, is)
}

// owned returns the leases of the session.
func (s *Session) owned() map[string]*Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	owned := maps.Clone(s.leases)
	maps.DeleteFunc(owned, func(_ string, l *Lease) bool { return l.epoch == 0 })
	return owned
}

// Acquire takes the ownership of a key, with a value that the others see beside it:
// a name, an address. It does not wait for another owner: then it fails with Exists
// (ErrHeld), also if this session itself has the key. It fails with Unavailable (ErrLost) while the node has no session.
//
// An Acquire that fails with an unknown outcome may have taken the key. The session gives it
// up as soon as it sees that, and may acquire it again before.
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
		wake.Signal(k.doubt) // the key may be taken all the same
		return nil, err
	}
	return l, nil
}

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

// tryAcquire fails with Conflict if something has changed meanwhile.
func (k *Keeper) tryAcquire(ctx context.Context, s *Session, key, value string) (epoch uint64, err error) {
	cur, err := k.bucket.Get(ctx, leasePrefix+key)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) && !errors.Is(err, mainstem.ErrCorrupt) {
		return 0, err
	}
	if err == nil {
		// This session's own is one that it acquired without learning of it.
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

// ended reports whether a session is over for good: its member record is another, or
// gone. What the log says of that does not change any more.
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
