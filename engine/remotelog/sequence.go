package remotelog

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

type recordStream = stream[pb.Records]

// sequence yields the records of a stream, and of further streams that go on where
// the one before was lost.
type sequence struct {
	call
	follow bool
	// open starts a stream of what has not been yielded yet.
	open func(context.Context, *try) (*recordStream, error)
	// took notes that the loop body has returned from a record, and reports whether
	// there can be more. Nil: there can be.
	took func(mainstem.Version, mainstem.Position) (more bool)
	// verify returns an error if a follower's stream does not go on with what was
	// read before. Only for followers.
	verify func(*pb.Following) *mainstem.Error
}

// run yields until the sequence ends, the loop body wants no more, or there is an
// error that cannot be mended, which it yields last.
func (s *sequence) run(ctx context.Context, l *Log, yield func(mainstem.Record, error) bool) {
	ctx, release := until(ctx, l.closing)
	defer release()
	// A closed log closes connections, perhaps before contexts have ended.
	over := func() bool { return ctx.Err() != nil || l.closing.Err() != nil }
	served, failures := false, 0
	s.began = time.Now()
	for {
		if over() {
			yield(mainstem.Record{}, s.ended(ctx, mainstem.NoOutcome))
			return
		}
		t, began := new(try), time.Now()
		accepted, gave, err := s.once(ctx, t, yield)
		if err == nil {
			return
		}
		if over() && endsCalls(err) {
			continue
		}
		if gave || time.Since(began) > MaxBackoff {
			failures = 0 // the server works, or did for a while
		}
		served = served || accepted || gave
		failures++
		if !s.resumable(t, err, served, failures <= l.o.Retries) {
			yield(mainstem.Record{}, err)
			return
		}
		retryPolicy.Wait(ctx, failures)
	}
}

// resumable reports whether another stream can go on after err. A sequence that was
// not served yet is as any other read.
func (s *sequence) resumable(t *try, err *mainstem.Error, served, retriesLeft bool) bool {
	if !served {
		return retriesLeft && ifLost(t, err)
	}
	return s.follow && endsCalls(err)
}

// endsCalls reports whether err can be that of a connection lost or of a server that
// stops: it closes its log and cancels what runs.
func endsCalls(err *mainstem.Error) bool {
	switch err.Kind {
	case mainstem.KindUnavailable, mainstem.KindClosed, mainstem.KindCanceled:
		return true
	}
	return false
}

// once yields the records of one stream. It returns nil at the stream's proper end
// and when the loop body wants no more, and else also whether the server had accepted
// to be followed and whether it gave any record.
func (s *sequence) once(ctx context.Context, t *try, yield func(mainstem.Record, error) bool) (accepted, gave bool, _ *mainstem.Error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.open(ctx, t)
	if err != nil {
		return false, false, s.explain(ctx, t, err)
	}
	defer func() {
		cancel() // first, or closing could wait for what is still to come
		stream.close()
	}()
	var scratch mainstem.Headers
	for stream.receive() {
		more := true
		following, err := lend(stream, &scratch, func(r mainstem.Record) bool {
			gave = true
			more = yield(r, nil) && (s.took == nil || s.took(r.Version, r.Position))
			return more
		})
		if err != nil {
			return accepted, gave, s.fail(mainstem.KindInternal, mainstem.NoOutcome, err)
		}
		if following != nil && s.verify != nil {
			if err := s.verify(following); err != nil {
				return accepted, gave, err
			}
			accepted = true
		}
		if !more {
			return accepted, gave, nil
		}
	}
	if err := stream.err(); err != nil {
		return accepted, gave, s.explain(ctx, t, err)
	}
	return accepted, gave, nil
}
