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

// Session is one period of membership of a node. All leases that were acquired in it end with it.
//
// Times, from the moment before the last successful renewal was sent:
//
//	0         the renewal is sent
//	TTL/5     the next renewal is sent
//	3/4 TTL   until: the session is over for its owner
//	TTL       expires: other members may remove it, and its node may begin another
//
// An entry of a lease in the log that has the session's epoch is accounted for if its key is in
// leases, or if a lease in releasing or unreleased has its revision as epoch. Otherwise it is a
// stray, and dropStrays deletes it.
//
// Invariant: while the session is not over, each lease that Acquire has returned is in leases,
// releasing or unreleased until its entry is deleted.
//
// Invariant: a session that is over stays over.
type Session struct {
	epoch uint64
	done  chan struct{} // closed when it is over
	once  sync.Once

	mu      sync.Mutex        // guards the fields below
	until   time.Time         // when it is over if it is not renewed; zero after end
	expires time.Time         // before that no other member removes it
	timer   *time.Timer       // calls expire at until, or earlier
	leases  map[string]*Lease // by key: owned, or being acquired (epoch 0)
	// releasing are leases whose entries Release is deleting.
	releasing []*Lease
	// unreleased are leases whose Release has failed, in that order. renew deletes their entries
	// when the log can be reached.
	unreleased []*Lease
	released   chan struct{} // capacity 1: unreleased has a new lease
}

// Epoch returns the session's epoch. Later sessions of a member of this name have higher ones.
func (s *Session) Epoch() uint64 { return s.epoch }

// Done returns a channel that is closed when the session is over: it was not renewed in time,
// another member has removed this one, or the keeper was closed. Work under its leases must stop
// now, see the guarantees of the package.
func (s *Session) Done() <-chan struct{} { return s.done }

// Over reports whether the session is over. It reads the clock, so it does not depend on a timer
// that may be late.
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

// newSession returns the session that a commit began which was sent at sent.
func newSession(epoch uint64, sent time.Time, ttl time.Duration) *Session {
	s := &Session{epoch: epoch, done: make(chan struct{}), leases: make(map[string]*Lease), released: make(chan struct{}, 1)}
	s.until, s.expires = sent.Add(ttl-ttl/4), sent.Add(ttl)
	s.timer = time.AfterFunc(time.Until(s.until), s.expire)
	return s
}

// renewed records the success of a renewal that was sent at sent. If the session is over, it changes
// only expires: the answer may be handled when until has passed and expire has not run yet.
func (s *Session) renewed(sent time.Time, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expires = sent.Add(ttl)
	if time.Now().Before(s.until) {
		s.until = sent.Add(ttl - ttl/4)
		s.timer.Reset(time.Until(s.until))
	}
}

// expire ends the session if until has passed, else sets the timer again.
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

// end ends the session and its leases. Ending twice is allowed.
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

// expiry returns the time before which no other member removes the session.
func (s *Session) expiry() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expires
}

// releaseLater makes renew delete the entry of l.
func (s *Session) releaseLater(l *Lease) {
	s.mu.Lock()
	s.unreleased = append(s.unreleased, l)
	s.mu.Unlock()
	wake.Signal(s.released)
}

// firstUnreleased returns the first lease of unreleased, or nil.
func (s *Session) firstUnreleased() *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unreleased) == 0 {
		return nil
	}
	return s.unreleased[0]
}

// dropUnreleased removes the lease that firstUnreleased has returned.
func (s *Session) dropUnreleased() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreleased = s.unreleased[1:]
}

// signsOfLife is the number of renewals by another member of the same name after which it is taken
// to be alive. Fewer may have been sent before it crashed and arrive later.
const signsOfLife = 3

// join begins a session when the name is free: there is no member entry, its member has been silent
// for its TTL, or the entry is this node's own. It is its own if its epoch is past, that of the
// node's last session, or if it has the ID of this join, whose commit succeeded without an answer.
// With past 0, another member of the name that is alive is Exists; else join waits until that one
// has been silent for its TTL.
func (k *Keeper) join(ctx context.Context, past uint64) (*Session, error) {
	var rival suspect
	var since time.Time
	signs := 0 // renewals of the rival that were seen
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

// incumbent returns the entries of the member that has the name of this one, with revision 0 for
// those that do not exist.
func (k *Keeper) incumbent(ctx context.Context) (suspect, record, error) {
	ctx, cancel := context.WithTimeout(ctx, k.ttl) // a broken connection may never answer
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

// tryJoin writes the entries of a new session, if those that were read as there have not changed.
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

// keep renews s until it is over and then begins the next session, until Close.
func (k *Keeper) keep(s *Session) {
	for {
		k.renew(s)
		s.end()
		if k.ctx.Err() != nil {
			return
		}
		k.logger.Warn("the session of this node is over", "node", k.self.Name, "epoch", s.epoch)
		k.install(nil)
		// Work under its leases has the rest of the TTL to stop.
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

// rejoin begins the next session after the one with the epoch past. It tries again until Close.
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

// renew renews s at intervals. It returns when s is over, the keeper is closed, or another member
// has removed this one. Between renewals it deletes the entries of leases whose Release has failed,
// but not beyond the time of the next renewal.
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
			return // another member has removed this one
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

// release deletes the entries of unreleased leases, until the time due. It reports whether none is
// left.
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

// beat renews s once. The timeout is short enough for more attempts before the session is over.
func (k *Keeper) beat(s *Session) error {
	ctx, cancel := context.WithTimeout(k.ctx, k.ttl/4)
	defer cancel()
	b := mainstem.NewBatch()
	k.bucket.ExpectTo(b, memberPrefix+k.self.Name, kv.IfRevision(kv.Revision(s.epoch)))
	k.bucket.PutTo(b, beatPrefix+k.self.Name, record{Session: s.epoch})
	_, err := k.log.Commit(ctx, b)
	return err
}

// retry waits before the next attempt of op after an error that may not occur again. It returns any
// other error at once, and an error with both causes if ctx ends first.
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
