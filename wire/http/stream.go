package viewhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// This file is answers that go on: server-sent events, and lists as lines of JSON.
//
// Each event is written and flushed by itself, within a deadline, so a client that reads nothing
// is cut, and nothing is kept for it: the log is read at the pace of the client. An event larger
// than smallFrame takes memory from the budget before it is encoded. If there is none, the
// source is left, so that the engine frees its record, and opened again where it was left when
// there is memory.

const (
	// smallFrame is the size of an event up to which it is covered by streamMemory.
	smallFrame = 16 << 10
	// streamMemory is what a stream of small events takes: the event, and what encodes it.
	streamMemory = 4 * smallFrame
	// frameCopies is how often a large event is in memory: as the engine has read it, as it is
	// encoded, and as it is sent.
	frameCopies = 3
	// openAfter is when the head of an answer is sent that has no event yet: errors from before
	// are answers of their own.
	openAfter = 50 * time.Millisecond
)

// errNoMemory makes a source end: it is opened again when there is memory.
var errNoMemory = errors.New("no memory for an event")

// frame is one event, or one line.
type frame struct {
	id    string // of the event, to go on after it; "": it has none
	event string // the type of the event
	data  any
	size  int // of the bytes in data, about
}

// stream is an answer that goes on. It belongs to the goroutine of its request, which alone
// calls send; the heartbeat writes between its events.
type stream struct {
	c     *call
	ctx   context.Context // ends with the request, the handler, or a failed heartbeat
	media string
	rc    *http.ResponseController
	// inPlace waits for memory within the source, which cannot be opened again where it was left.
	inPlace bool
	want    int64       // bytes that the source was left for
	small   budget.Hold // streamMemory, of a budget whose holders may wait for large
	large   budget.Hold // of the event being sent, if it is large

	mu struct {
		sync.Mutex
		begun bool      // the head was sent
		last  time.Time // of the last write
		buf   bytes.Buffer
	}
	// cutting is not held while something is written, which cut is to end.
	cutting struct {
		sync.Mutex
		over bool // the connection may have other requests: its deadlines are theirs
	}
}

// source sends frames until it ends, or until send returns an error, which it returns.
type source func(ctx context.Context, send func(frame) error) error

// stream answers with what from sends.
func (c *call) stream(media string, from source) error { return c.streamFrom(media, false, from) }

func (c *call) streamFrom(media string, inPlace bool, from source) error {
	select {
	case c.h.streams <- struct{}{}:
		defer func() { <-c.h.streams }()
	default:
		return refuse(http.StatusServiceUnavailable, mainstem.KindUnavailable, "%d streams are open: the limit is %d", cap(c.h.streams), cap(c.h.streams))
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.h.stopping, func() { cancel(errStopping) })()
	s := &stream{c: c, ctx: ctx, media: media, rc: http.NewResponseController(c.w), inPlace: inPlace, small: c.h.streamMemory.Hold(), large: c.h.memory.Hold()}
	defer s.small.Release()
	defer s.large.Release()
	if !s.small.Try(streamMemory) {
		return refuse(http.StatusServiceUnavailable, mainstem.KindUnavailable, "there is no memory for another stream")
	}
	if c.r.Method == http.MethodHead {
		s.begin()
		return nil
	}
	var beats sync.WaitGroup
	beating, stop := context.WithCancel(ctx)
	beats.Go(func() { s.heartbeat(beating, cancel) })
	err := s.pump(from)
	stop()
	beats.Wait()
	return s.finish(err)
}

// pump runs the source, as often as it has to be left for memory.
func (s *stream) pump(from source) error {
	for {
		err := from(s.ctx, s.send)
		s.large.Release()
		if err != errNoMemory {
			return err
		}
		if err := s.large.Acquire(s.ctx, s.want); err != nil {
			return exhausted(err)
		}
	}
}

// finish ends the answer. An error comes as an event; a list of lines is broken off.
func (s *stream) finish(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.release()
	switch {
	case err == nil:
		s.beginLocked()
		return nil
	case s.ctx.Err() != nil && s.c.ctx.Err() == nil && context.Cause(s.ctx) == errStopping:
		if s.mu.begun && s.media == mediaEvents {
			return nil // the client connects again, with the id of the last event
		}
		return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "http", Err: errStopping}
	case !s.mu.begun:
		return err
	case s.media == mediaEvents && s.ctx.Err() == nil:
		_ = s.writeLocked(frame{event: "error", data: problemOf(err)}) // the client is gone, or reads why
		return nil
	}
	return err
}

// begin sends the head of the answer.
func (s *stream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginLocked()
}

func (s *stream) beginLocked() {
	if s.mu.begun {
		return
	}
	s.mu.begun = true
	h := s.c.w.Header()
	h.Set("Content-Type", s.media)
	h.Set("X-Accel-Buffering", "no") // nginx passes each event on
	if s.media == mediaEvents {
		h.Set("Cache-Control", "no-cache, no-transform")
	}
	s.c.w.WriteHeader(http.StatusOK)
	_ = s.rc.Flush() // a write fails too
}

// send writes one frame.
func (s *stream) send(f frame) error {
	if f.size > smallFrame {
		if err := s.afford(frameCopies * int64(f.size)); err != nil {
			return err
		}
		defer s.large.Release()
		s.large.OnRecall(s.cut, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginLocked()
	return s.writeLocked(f)
}

// afford takes memory for a large frame.
func (s *stream) afford(n int64) error {
	more := n - s.large.Size()
	if more <= 0 || s.large.Try(more) {
		return nil
	}
	if !s.inPlace {
		s.want = n
		return errNoMemory
	}
	return exhausted(s.large.Acquire(s.ctx, more))
}

func (s *stream) writeLocked(f frame) error {
	data, err := json.Marshal(f.data)
	if err != nil {
		return mainstem.Errorf(mainstem.KindInternal, "http", "encode an event: %w", err)
	}
	b := &s.mu.buf
	b.Reset()
	if s.media == mediaEvents {
		if f.id != "" {
			b.WriteString("id: " + f.id + "\n")
		}
		if f.event != "" {
			b.WriteString("event: " + f.event + "\n")
		}
		b.WriteString("data: ")
	}
	b.Write(data)
	b.WriteByte('\n')
	if s.media == mediaEvents {
		b.WriteByte('\n')
	}
	err = s.flushLocked(b.Bytes())
	if b.Cap() > 2*smallFrame {
		*b = bytes.Buffer{}
	}
	return err
}

// flushLocked sends p within the time that a client has for it.
func (s *stream) flushLocked(p []byte) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.c.h.o.WriteTimeout)) // a writer without deadlines cannot be cut
	_, err := s.c.w.Write(p)
	if err == nil {
		err = s.rc.Flush()
	}
	s.mu.last = time.Now()
	return err
}

// cut ends the stream of a client that takes nothing of a large event while others wait for its
// memory. The budget may call it late, when the answer has ended.
func (s *stream) cut() {
	s.cutting.Lock()
	defer s.cutting.Unlock()
	if !s.cutting.over {
		_ = s.rc.SetWriteDeadline(time.Now().Add(-time.Second)) // a writer without deadlines cannot be cut
	}
}

// release leaves the connection to other requests.
func (s *stream) release() {
	s.cutting.Lock()
	defer s.cutting.Unlock()
	s.cutting.over = true
	_ = s.rc.SetWriteDeadline(time.Time{})
}

// heartbeat sends the head of an answer that has no event yet, and comments while there is none,
// until ctx ends.
func (s *stream) heartbeat(ctx context.Context, fail context.CancelCauseFunc) {
	t := time.NewTimer(openAfter)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		wait, err := s.beat()
		if err != nil {
			fail(err)
			return
		}
		t.Reset(wait)
	}
}

// beat writes a comment if nothing was written for long, and returns when it is due again.
func (s *stream) beat() (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := s.c.h.o.Heartbeat
	if !s.mu.begun {
		s.beginLocked()
		s.mu.last = time.Now()
		return every, nil
	}
	silent := time.Since(s.mu.last)
	if silent < every || s.media != mediaEvents {
		return max(every-silent, time.Millisecond), nil
	}
	return every, s.flushLocked([]byte(": \n\n"))
}

// idOf is the id of an event at a position.
func idOf(p mainstem.Position) string { return strconv.FormatUint(uint64(p), 10) }
