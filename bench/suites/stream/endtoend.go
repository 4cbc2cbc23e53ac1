package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// endToEndEntry is the time from sending a message until a consumer that waits for
// it has it, and the producer its acknowledgement.
func endToEndEntry(f Factory) suite.Entry {
	const size = 1 << 10
	return suite.Entry{
		Case: "client/end-to-end/1k", About: "send one message until a waiting consumer has it and it is acknowledged", Op: "message", BytesPerOp: size,
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			b, err := openFixture(ctx, f, env)
			if err != nil {
				return nil, err
			}
			s := &sending{fixture: b, load: load{size: size, batch: 1, producers: 1}}
			if err := s.start(ctx); err != nil {
				return nil, errors.Join(err, b.Close())
			}
			return &suite.Round{Run: s.deliver, Check: s.check, Close: b.Close}, nil
		},
	}
}

// deliver sends n messages, each when the one before has arrived.
func (s *sending) deliver(ctx context.Context, n int, rec *suite.Recorder) error {
	ctx, cancel := context.WithCancel(ctx)
	c, err := s.Consumer(ctx, topicName, s.checked)
	if err != nil {
		cancel()
		return err
	}
	arrived := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		v := newVerifier(0, s.size)
		v.next[0] = uint64(s.checked)
		arrived <- take(ctx, c, n, func(m Message) error {
			err := v.number(m)
			if err == nil {
				arrived <- nil
			}
			return err
		})
	}()
	err = suite.Loop(ctx, n, rec, func(ctx context.Context, _ int) error {
		if err := s.producers[0].Send(ctx, s.data[0].batch()...); err != nil {
			return err
		}
		return awaitOne(ctx, arrived)
	})
	cancel()
	for over := false; !over; {
		select {
		case <-arrived: // it may have one more to say
		case <-ended:
			over = true
		}
	}
	return errors.Join(err, c.Close())
}

func awaitOne(ctx context.Context, arrived <-chan error) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case err := <-arrived:
		return err
	case <-late.C:
		return fmt.Errorf("an acknowledged message did not arrive within %s", patience)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
