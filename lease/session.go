package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/uuid"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/kv"
)

// Session is the time during which a node is a member. All leases that were acquired
// in it end with it.
type Session struct {
	epoch uint64
	done  chan struct{} // closed when it is over
	once  sync.Once

	mu      sync.Mutex // guards the fields below
	until   time.Time  // when it is over, if it is not renewed; zero: it is
	expires time.Time  // before this nobody takes it for over
	timer   *time.Timer
	leases  map[string]*Lease
	// releasing are leases whose records are being deleted by Release.
	releasing []*Lease
	// unreleased are leases that were released while the log could not be reached. Their
	// records are deleted as soon as it can be.
	unreleased []*Lease
	released   chan struct{} // gets a value when unreleased has a new one; holds one
}

// Epoch returns the session's epoch: the next session of a member of this name has
// a higher one.
func (s *Session) Epoch() uint64 { return s.epoch }

// Done returns a channel that is closed when the session is over: it could not be
// renewed, the others have removed the member, or the keeper was closed. What was
// done on the strength of it must end now: see the package's guarantees.
func (s *Session) Done() <-chan struct{} { return s.done }

// Over reports whether the session is over. It looks at the clock itself.
func (s *Session) Over() bool {
	select {
	case <-s.done:
		return true
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !time.Now().Before(s.until)
}

func newSession(epoch uint64, sent time.Time, ttl time.Duration) *Session {
	s := &Session{epoch: epoch, done: make(chan struct{}), leases: make(map[string]*Lease), released: make(chan struct{}, 1)}
	s.until, s.expires = sent.Add(ttl-ttl/4), sent.Add(ttl)
	s.timer = time.AfterFunc(time.Until(s.until), s.expire)
	return s
}

// renewed notes that a renewal that was sent at a time has succeeded. One that was too late is
// for nothing: Done is closed.
func (s *Session) renewed(sent time.Time, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expires = sent.Add(ttl)
	if !s.until.IsZero() {
		s.until = sent.Add(ttl - ttl/4)
		s.timer.Reset(time.Until(s.until))
	}
}

// expire ends the session if its time has come.
func (s *Session) expire() {
	s.mu.Lock()
	left := time.Until(s.until)
	if left > 0 {
		s.timer.Reset(left)
	}
	s.mu.Unlock()
	if left <= 0 {
		s.end()
	}
}

// end ends the session with all its leases. Leases that were released count no more.
func (s *Session) end() {
	s.once.Do(func() { close(s.done) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Stop()
	s.until = time.Time{}
	for _, l := range s.leases {
		l.end()
	}
}

// expiry returns the time before which nobody takes the session for over.
func (s *Session) expiry() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expires
}

// releaseLater has the goroutine that renews the session delete the lease's record.
func (s *Session) releaseLater(l *Lease) {
	s.mu.Lock()
	s.unreleased = append(s.unreleased, l)
	s.mu.Unlock()
	wake.Signal(s.released)
}

// firstUnreleased returns the lease whose record is to be deleted next, nil if there is none.
func (s *Session) firstUnreleased() *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unreleased) == 0 {
		return nil
	}
	return s.unreleased[0]
}

// dropUnreleased takes off the lease that firstUnreleased has returned.
func (s *Session) dropUnreleased() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreleased = s.unreleased[1:]
}

// signsOfLife are the renewals of another member of the same name that convince a
// node that it lives. Fewer may have been under way when it crashed.
const signsOfLife = 3

// join makes the node a member, when its name is free. The record of a session of
// its own that is over, of epoch past, is no obstacle, nor is one that it wrote without
// learning of it: it writes another. With past 0 it gives up if another
// member of that name lives; else it waits for as long as it takes.
func (k *Keeper) join(ctx context.Context, past uint64) (*Session, error) {
	var rival suspect
	var since time.Time
	signs := 0 // of life of the rival
	id := uuid.Random().String()
	for attempt := 0; ; attempt++ {
		there, cur, err := k.incumbent(ctx)
		if err == nil && there.epoch != 0 && uint64(there.epoch) != past && cur.ID != id {
			if there != rival {
				if rival.epoch == there.epoch {
					signs++
				} else {
					k.logger.Info("another member has the name of this one: it may join when that one is silent for its TTL",
						"name", k.self.Name, "holder", cur.Address, "until", time.Now().Add(cur.ttl()))
				}
				if past == 0 && signs >= signsOfLife {
					return nil, held("join", "the name "+k.self.Name, "a node at "+cur.Address+", which lives")
				}
				rival, since = there, time.Now()
			}
			if left := cur.ttl() - time.Since(since); left > 0 {
				if !backoff.Sleep(ctx, min(left, cur.ttl()/4)) {
					return nil, canceled("wait", ctx)
				}
				continue
			}
		}
		var s *Session
		if err == nil {
			if s, err = k.tryJoin(ctx, there, id); err == nil {
				return s, nil
			}
		}
		if err := k.retry(ctx, "join", attempt, err); err != nil {
			return nil, err
		}
	}
}

// incumbent returns what the log says of the member that has the name of this one.
func (k *Keeper) incumbent(ctx context.Context) (suspect, record, error) {
	ctx, cancel := context.WithTimeout(ctx, k.ttl) // a connection that is dead without saying so
	defer cancel()
	missing := func(err error) bool {
		return errors.Is(err, mainstem.ErrNotFound) || errors.Is(err, mainstem.ErrCorrupt)
	}
	cur, err := k.bucket.Get(ctx, memberPrefix+k.self.Name)
	if err != nil && !missing(err) {
		return suspect{}, record{}, err
	}
	beat, err := k.bucket.Get(ctx, beatPrefix+k.self.Name)
	if err != nil && !missing(err) {
		return suspect{}, record{}, err
	}
	return suspect{k.self.Name, cur.Revision, beat.Revision}, cur.Value, nil
}

// tryJoin writes the records of a new session if what is there has not changed.
func (k *Keeper) tryJoin(ctx context.Context, there suspect, id string) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, k.ttl)
	defer cancel()
	name := k.self.Name
	b := mainstem.NewBatch()
	me := record{ID: id, Start: k.self.Start, Address: k.self.Address, TTL: k.ttl.Milliseconds()}
	k.bucket.PutTo(b, memberPrefix+name, me, kv.IfRevision(there.epoch))
	k.bucket.PutTo(b, beatPrefix+name, record{ID: id}, kv.IfRevision(there.beat))
	sent := time.Now()
	r, err := k.log.Commit(ctx, b)
	if err == nil {
		return newSession(uint64(r.Versions[0]), sent, k.ttl), nil
	}
	return nil, err
}

// keep renews s until it is over, and then joins again, until Close.
func (k *Keeper) keep(s *Session) {
	for {
		k.renew(s)
		s.end()
		if k.ctx.Err() != nil {
			return
		}
		k.logger.Warn("the session of this node is over", "node", k.self.Name, "epoch", s.epoch)
		k.install(nil)
		// What was done under it may need the rest of its time to stop.
		if !backoff.Sleep(k.ctx, time.Until(s.expiry())) {
			return
		}
		next, err := k.rejoin(s.epoch)
		if err != nil {
			return
		}
		s = next
		k.logger.Info("this node is a member again", "node", k.self.Name, "epoch", s.epoch)
		k.install(s)
		if k.ctx.Err() != nil {
			s.end()
			return
		}
	}
}

func (k *Keeper) rejoin(past uint64) (*Session, error) {
	for attempt := 0; ; attempt++ {
		s, err := k.join(k.ctx, past)
		if err == nil || k.ctx.Err() != nil {
			return s, err
		}
		k.logger.Warn("cannot become a member again", "node", k.self.Name, "error", err)
		k.retryPolicy.Wait(k.ctx, attempt+1)
	}
}

// renew returns when s is over or the keeper is closed. Between renewals it deletes the
// records of leases whose Release has failed, and never lets a renewal wait for that.
func (k *Keeper) renew(s *Session) {
	pause := k.ttl / 5
	due := time.Now().Add(pause) // the next renewal
	renewal := time.NewTimer(pause)
	defer renewal.Stop()
	var release <-chan time.Time // nil while every Release has succeeded
	for attempt, releases := 0, 0; ; {
		select {
		case <-renewal.C:
		case <-s.released:
			releases = 1
			release = time.After(k.retryPolicy.Delay(releases))
			continue
		case <-release:
			if release = nil; !k.release(s, due) {
				releases++
				release = time.After(k.retryPolicy.Delay(releases))
			}
			continue
		case <-s.done:
			return
		}
		sent := time.Now()
		err := k.beat(s)
		switch {
		case err == nil:
			s.renewed(sent, k.ttl)
			pause, attempt = k.ttl/5, 0
		case errors.Is(err, mainstem.ErrConflict):
			return // somebody has removed this member
		default:
			if attempt == 0 {
				k.logger.Warn("cannot renew the session of this node", "node", k.self.Name, "error", err)
			}
			attempt++
			pause = k.retryPolicy.Delay(attempt)
		}
		due = time.Now().Add(pause)
		renewal.Reset(pause)
	}
}

// release deletes the records of leases whose Release has failed, until the time due. It
// reports whether none is left.
func (k *Keeper) release(s *Session, due time.Time) bool {
	ctx, cancel := context.WithDeadline(k.ctx, due)
	defer cancel()
	for l := s.firstUnreleased(); l != nil; l = s.firstUnreleased() {
		if ctx.Err() != nil || l.remove(ctx) != nil {
			return false
		}
		s.dropUnreleased()
	}
	return true
}

// beat renews s once. One that does not come back is not waited for until the end.
func (k *Keeper) beat(s *Session) error {
	ctx, cancel := context.WithTimeout(k.ctx, k.ttl/4)
	defer cancel()
	b := mainstem.NewBatch()
	k.bucket.ExpectTo(b, memberPrefix+k.self.Name, kv.IfRevision(kv.Revision(s.epoch)))
	k.bucket.PutTo(b, beatPrefix+k.self.Name, record{Session: s.epoch})
	_, err := k.log.Commit(ctx, b)
	return err
}

// retry waits before the next attempt after a failure that may pass; it returns any other.
func (k *Keeper) retry(ctx context.Context, op string, attempt int, err error) error {
	passes := false
	for _, kind := range []error{mainstem.ErrUnavailable, mainstem.ErrConflict, mainstem.ErrCanceled, mainstem.ErrUnknownOutcome} {
		passes = passes || errors.Is(err, kind)
	}
	if !passes || ctx.Err() != nil {
		return err
	}
	if !k.retryPolicy.Wait(ctx, attempt+1) {
		e := mainstem.Ended(ctx, op, time.Time{}, "the log that holds the leases")
		e.Err = fmt.Errorf("%w: %w", e.Err, err)
		return e
	}
	return nil
}
