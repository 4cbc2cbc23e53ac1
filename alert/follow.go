package alert

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// Wait returns when the server shows everything up to position p of the log: for
// reading what was committed without the server, with [Server.InsertTo] or by
// another server.
func (s *Server) Wait(ctx context.Context, p mainstem.Position) error {
	if p <= s.applied.upTo() {
		return nil
	}
	for n := 1; ; n++ {
		head, err := s.log.Head(ctx)
		if err != nil {
			return err
		}
		if head >= p {
			break
		}
		// A log that several processes share brings what others have committed a moment later.
		if !behind.Wait(ctx, n) {
			return canceled(ctx)
		}
		if s.ctx.Err() != nil {
			return closed()
		}
	}
	return s.catchUp(ctx)
}

// show returns when every query that begins then shows the record at p. Who passes records
// to it in order has seen all before it shown.
func (s *Server) show(ctx context.Context, p mainstem.Position) error {
	if s.applied.has(p) {
		return nil
	}
	s.committing.Lock() // a batch of this server may be on its way
	has := s.applied.has(p)
	s.committing.Unlock()
	if has {
		return nil
	}
	return s.catchUp(ctx)
}

// catchUp has the writer bring the mirror up to what the log holds now.
func (s *Server) catchUp(ctx context.Context) error {
	_, err := s.do(ctx, alone, func(*tx) error { return s.refresh(s.ctx) })
	return err
}

// behind is the pause until a log that several processes share is looked at again.
var behind = backoff.Policy{First: 100 * time.Microsecond, Max: 20 * time.Millisecond}

// followAgain is the pause of the follower after an error of the log.
var followAgain = backoff.Policy{First: 10 * time.Millisecond, Max: time.Second}

// follow is the goroutine that waits for every position that the feed brings: so the mirror
// has what other servers write, and what is written without a server.
func (s *Server) follow() {
	failures := 0
	for s.ctx.Err() == nil {
		err := s.followOnce()
		if err == nil {
			failures = 0
			continue
		}
		if errors.Is(err, mainstem.ErrClosed) || s.ctx.Err() != nil {
			return
		}
		s.o.Logger.Error("alert: following the log", "error", err)
		failures++
		followAgain.Wait(s.ctx, failures)
	}
}

// followOnce follows the spaces that there are now, until they are others.
//
// Invariant: no position is added to applied by a feed that lacks a space of the schema. A
// schema is adopted before the position that brings it is added, so the look at it behind
// show is not too early.
func (s *Server) followOnce() error {
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	select {
	case <-s.changed: // what is read below is newer
	default:
	}
	done := make(chan struct{})
	defer func() { <-done }()
	defer stop()
	changed := false
	go func() {
		defer close(done)
		select {
		case <-s.changed:
			changed = true
			stop()
		case <-ctx.Done():
		}
	}()
	sc := s.schema.Load()
	f := mainstem.Filter{Spaces: sc.spaces, After: s.applied.upTo(), Follow: true}
	for rec, err := range s.log.Feed(ctx, f) {
		if err != nil {
			stop()
			<-done
			if changed {
				return nil
			}
			return err
		}
		if err := s.show(s.ctx, rec.Position); err != nil {
			return err
		}
		if s.schema.Load() != sc {
			return nil // the feed may have left out rows before the record: they are in other spaces
		}
		if last := s.applied.advance(rec.Position); last {
			backoff.Sleep(ctx, followRest)
		}
	}
	return nil
}

// followRest is how long the follower waits when the mirror was faster than it: beside a
// server that writes all the time it then reads many records at once, which costs a part
// of reading them one by one.
const followRest = time.Millisecond
