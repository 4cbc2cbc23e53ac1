package remotelog

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

type recordStream = stream[pb.Records]

// sequence yields the records of a stream. If the stream is lost, it continues with further
// streams.
type sequence struct {
	call
	follow bool
	// open opens a stream of the records that have not been yielded yet.
	open func(context.Context, *try) (*recordStream, error)
	// took records that the loop body has returned from a record, and reports whether there can
	// be more. Nil means that there can be.
	took func(mainstem.Version, mainstem.Position) (more bool)
	// verify returns an error if the stream of a follower does not continue what was read before.
	// It is used for followers only.
	verify func(*pb.Following) *mainstem.Error
}

// run yields records until the sequence ends, the loop body ends it, or there is an error after
// which it cannot resume, which it yields last.
func (s *sequence) run(ctx context.Context, l *Log, yield func(mainstem.Record, error) bool) {
	ctx, release := until(ctx, l.closing)
	defer release()
	// Close of the Log closes connections, perhaps before contexts have ended.
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
			failures = 0 // the server works, or did for some time
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

// resumable reports whether another stream can continue after err. Before it has been served, a
// sequence is repeated like any other read.
func (s *sequence) resumable(t *try, err *mainstem.Error, served, retriesLeft bool) bool {
	if !served {
		return retriesLeft && ifLost(t, err)
	}
	return s.follow && endsCalls(err)
}

// endsCalls reports whether err may be caused by a lost connection, or by a server that is
// stopping, which closes its log and cancels running calls.
func endsCalls(err *mainstem.Error) bool {
	switch err.Kind {
	case mainstem.KindUnavailable, mainstem.KindClosed, mainstem.KindCanceled:
		return true
	}
	return false
}

// once yields the records of one stream. It returns a nil error at the end of the stream, and
// when the loop body ends it. It also returns whether the server has accepted the follower, and
// whether there was any record.
func (s *sequence) once(ctx context.Context, t *try, yield func(mainstem.Record, error) bool) (accepted, gave bool, _ *mainstem.Error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.open(ctx, t)
	if err != nil {
		return false, false, s.explain(ctx, t, err)
	}
	defer func() {
		cancel() // first, since closing would wait for the rest of the stream
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
