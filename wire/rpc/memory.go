package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

const (
	// memory of a stream of small records: two messages
	streamMemory = 256 << 10
	// size up to which a record in the answer of Get is not counted
	smallAnswer = 4 << 10
	// copies of a request in memory: encoded and decoded
	requestCopies = 2
)

// memory has the budgets of a handler, in the order in which a call may wait for them: a call
// that holds bytes of one waits only for those after it.
type memory struct {
	sessions *budget.Budget // sessionMemory for each session
	requests *budget.Budget // bytes of requests that are being read or served
	streams  *budget.Budget // streamMemory for each stream
	waiting  *budget.Budget // records of sequences that wait for answers and cannot be opened again; reserving never waits
	answers  *budget.Budget // large records on their way to clients
	readers  chan struct{}  // has one element for each call that reads from the log; nil: no limit
}

// reader is the place of a call among the calls that read from the log. The size of a record is
// known only after the engine has read it, so memory cannot be reserved before; a limit on the
// number of such calls bounds what engines read. A call does not keep its place while it waits
// for a client or for memory, and followers wait for new records without a place.
type reader struct {
	places chan struct{}
	placed bool
}

// enter waits for a place. If ctx ends first, there is none, and reading will fail.
func (r *reader) enter(ctx context.Context) {
	if r.placed || r.places == nil {
		return
	}
	select {
	case r.places <- struct{}{}:
		r.placed = true
		return
	default:
	}
	select {
	case r.places <- struct{}{}:
		r.placed = true
	case <-ctx.Done():
	}
}

// leave releases the place. It returns whether there was one.
func (r *reader) leave() bool {
	had := r.placed
	if had {
		<-r.places
		r.placed = false
	}
	return had
}

// readersFor returns how many calls may read at a time: as many as answers have memory for
// records of the largest size, but enough to keep the processors busy.
func readersFor(o *Options) int64 {
	return max(8*int64(runtime.GOMAXPROCS(0)), o.MaxAnswers/(copies*int64(o.Limits.MaxValue)))
}

func newMemory(o *Options) memory {
	of := o.Memory
	if of == nil {
		of = budget.New("rpc", requestCopies*o.MaxPending+o.MaxAnswers+int64(o.MaxStreams)*streamMemory+int64(o.MaxSessions)*sessionMemory)
	}
	return memory{
		sessions: of.Child("rpc sessions", int64(o.MaxSessions)*sessionMemory),
		requests: of.Child("rpc requests", requestCopies*o.MaxPending),
		streams:  of.Child("rpc streams", int64(o.MaxStreams)*streamMemory),
		waiting:  of.Child("rpc scans that wait", o.MaxAnswers/8),
		answers:  of.Child("rpc answers", o.MaxAnswers),
		readers:  make(chan struct{}, readersFor(o)),
	}
}

var errManyWait = errors.New("many scans of large records wait for memory")

// exhausted turns an error of a budget into one for clients. It has no outcome, since it is about
// an answer.
func exhausted(err error) error {
	var e *budget.ExhaustedError
	if !errors.As(err, &e) {
		return err
	}
	if cause := e.Cause; errors.Is(cause, errStopping) {
		return mainstem.Errorf(mainstem.KindUnavailable, "rpc", "%w", cause)
	}
	return mainstem.Errorf(mainstem.KindUnavailable, "rpc", "%w", err).WithHint("clients read too slowly, or the server has too little memory (memory-budget): try again later")
}

// get reads a record for an answer of its own, whose memory is reserved until the call has ended.
// If there is no memory for it, the record is dropped, and read again when there is.
func (h *Handler) get(ctx context.Context, read func(context.Context) (mainstem.Record, error)) (mainstem.Record, error) {
	ctx, stop := h.untilStopped(ctx)
	defer stop()
	for {
		r, err := h.readInTurn(ctx, read)
		size := sizeOf(&r)
		x, ok := ctx.Value(exchangeKey{}).(*exchange)
		if err != nil || size <= smallAnswer || !ok {
			return r, err
		}
		more := copies*size - x.answer.Size()
		if more <= 0 || x.answer.Try(more) {
			x.sending = &x.answer
			return r, nil
		}
		r = mainstem.Record{}
		x.answer.Release()
		if err := x.answer.Acquire(ctx, copies*size); err != nil {
			return r, exhausted(err)
		}
	}
}

// readInTurn calls read while it has a place among the readers.
func (h *Handler) readInTurn(ctx context.Context, read func(context.Context) (mainstem.Record, error)) (mainstem.Record, error) {
	turn := reader{places: h.memory.readers}
	turn.enter(ctx)
	defer turn.leave()
	return read(ctx)
}

// untilStopped returns a context that also ends when the handler is closed.
func (h *Handler) untilStopped(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.stopping, func() { cancel(errStopping) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// exchangeKey is the context key of the exchange of a call.
type exchangeKey struct{}

// hold counts n more bytes of the body of the request, and waits for their memory until the
// deadline of the client, but no longer than a request may take to arrive.
func (x *exchange) hold(n int64) error {
	if x.request.Try(requestCopies * n) {
		return nil
	}
	ctx, stop := x.h.untilStopped(x.ctx)
	defer stop()
	if x.late != nil && x.late.Stop() { // waiting for memory does not count as time to arrive
		defer x.late.Reset(x.h.o.BodyTimeout)
	}
	if d := x.patience(); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, fmt.Errorf("waited %v", d))
		defer cancel()
	}
	if err := x.request.Acquire(ctx, requestCopies*n); err != nil {
		return x.unread(err, "try again later")
	}
	return nil
}

// unread returns the error for a request that was not read completely.
func (x *exchange) unread(cause error, hint string) *mainstem.Error {
	return mainstem.Refusef(mainstem.KindUnavailable, "rpc", "%w", cause).WithHint(hint)
}

// patience returns how long the request may wait for memory: until its deadline if it has one.
func (x *exchange) patience() time.Duration {
	d := x.h.o.BodyTimeout
	if own := timeoutOf(x.header); own > 0 && (d <= 0 || own < d) {
		d = own
	}
	return d
}

// timeoutOf returns the timeout that a client sends, in the header of Connect or of gRPC, or 0 if
// it sends none.
func timeoutOf(h http.Header) time.Duration {
	if ms, err := strconv.ParseUint(h.Get("Connect-Timeout-Ms"), 10, 40); err == nil {
		return time.Duration(ms) * time.Millisecond
	}
	text := h.Get("Grpc-Timeout")
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 27)
	if err != nil {
		return 0
	}
	units := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': 1}
	return time.Duration(n) * units[text[len(text)-1]]
}
