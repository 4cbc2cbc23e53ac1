package model

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
)

// Snapshot returns a copy of the log as it is now; time stands still in it.
func (l *Log) Snapshot(ctx context.Context) (mainstem.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(ctx, "snapshot"); err != nil {
		return nil, err
	}
	s := &snapshot{now: l.nowLocked(), done: l.done}
	s.state = l.mu.clone()
	s.now.readings = s.state.readings
	return s, nil
}

// snapshot is a state that nobody changes.
type snapshot struct {
	state  state
	now    moment
	done   <-chan struct{} // the log was closed
	closed atomic.Bool
}

func (s *snapshot) usable(ctx context.Context, op string, follow bool) error {
	select {
	case <-s.done:
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	default:
	}
	switch {
	case s.closed.Load():
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	case ctx.Err() != nil:
		return canceledError(op, ctx)
	case follow:
		return mainstem.Errorf(mainstem.KindUnsupported, op, "a snapshot never changes: there is nothing to follow")
	}
	return nil
}

func (s *snapshot) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	if err := validateKey("get", space, key); err != nil {
		return mainstem.Record{}, err
	}
	if err := s.usable(ctx, "get", false); err != nil {
		return mainstem.Record{}, err
	}
	return s.state.get(space, key, s.now)
}

func (s *snapshot) GetMany(ctx context.Context, space string, keys [][]byte) iter.Seq2[mainstem.Record, error] {
	valid := func() error { return mainstem.ValidateKeys(keys) }
	return s.sequence(ctx, "get many", false, valid, func() ([]mainstem.Record, error) {
		if len(keys) == 0 {
			return nil, nil
		}
		return s.state.getMany(space, keys, s.now)
	})
}

func (s *snapshot) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	return s.sequence(ctx, "scan", false, r.Validate, func() ([]mainstem.Record, error) {
		return s.state.scan(space, r, s.now)
	})
}

func (s *snapshot) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	valid := func() error { return validateRead(space, key, v) }
	return s.sequence(ctx, "read", v.Follow, valid, func() ([]mainstem.Record, error) {
		records, _, err := s.state.read(space, key, v, s.now)
		return records, err
	})
}

func (s *snapshot) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return s.sequence(ctx, "feed", f.Follow, f.Validate, func() ([]mainstem.Record, error) {
		return s.state.feed(f, s.now), nil
	})
}

func (s *snapshot) sequence(ctx context.Context, op string, follow bool, valid func() error, records func() ([]mainstem.Record, error)) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		err := valid()
		if err == nil {
			err = s.usable(ctx, op, follow)
		}
		if err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		found, err := records()
		lend(found, err, yield)
	}
}

func (s *snapshot) Head(ctx context.Context) (mainstem.Position, error) {
	if err := s.usable(ctx, "head", false); err != nil {
		return 0, err
	}
	return s.state.head, nil
}

func (s *snapshot) Close() error {
	s.closed.Store(true)
	return nil
}
