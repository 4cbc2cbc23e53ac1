package viewhttp

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/topic"
)

// Handler serves the views of one log. Make it with [New]. Its methods may be called from many
// goroutines.
type Handler struct {
	o      Options
	log    mainstem.Log
	topics *topic.Catalog

	// Holders of the first wait for the second: see docs/memory.md.
	streamMemory *budget.Budget // streamMemory for each stream
	memory       *budget.Budget // of requests and answers, and of large events

	streams  chan struct{}   // holds one element for each stream
	stopping context.Context // done when Close was called
	stop     context.CancelFunc
	mu       struct {
		sync.Mutex
		closed bool
		calls  sync.WaitGroup // Invariant: nothing is added after closed is set
	}
}

// errStopping is the cause of the end of followers when the handler is closed.
var errStopping = errors.New("the server is stopping")

// New returns a handler that serves log and its topics on the paths below /v1/. Both stay the
// caller's, who closes the handler first.
func New(log mainstem.Log, topics *topic.Catalog, o *Options) *Handler {
	h := &Handler{o: o.withDefaults(), log: log, topics: topics}
	if of := h.o.Memory; of != nil {
		h.streamMemory = of.Child("http streams", int64(h.o.MaxStreams)*streamMemory)
		h.memory = of.Child("http", 0)
	}
	h.streams = make(chan struct{}, h.o.MaxStreams)
	h.stopping, h.stop = context.WithCancel(context.Background())
	return h
}

// Close refuses new requests, ends followers, and waits for all requests to end. Call it before
// [http.Server.Shutdown], which waits for followers without end, and before the log is closed.
// Closing twice is allowed.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.mu.closed = true
	h.mu.Unlock()
	h.stop()
	h.mu.calls.Wait()
	return nil
}

// begin reports whether the handler serves another request; then end has to be called.
func (h *Handler) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.closed {
		return false
	}
	h.mu.calls.Add(1)
	return true
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	c := newCall(h, w, r)
	defer func() { h.o.Observe(c.route.name(), c.status(), time.Since(began)) }()
	if !h.begin() {
		c.fail(&mainstem.Error{Kind: mainstem.KindUnavailable, Op: "http", Outcome: mainstem.NotWritten, Err: errStopping})
		return
	}
	defer h.mu.calls.Done()
	defer c.end()
	defer c.recovered()
	if err := c.serve(); err != nil {
		c.fail(err)
	}
}

// recovered turns a panic of a request into its answer; only [http.ErrAbortHandler] goes on.
func (c *call) recovered() {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	c.h.o.Logger.ErrorContext(c.ctx, "http: a request panicked", "route", c.route.name(), "panic", v, "stack", string(debug.Stack()))
	e := mainstem.Errorf(mainstem.KindInternal, "http", "the server failed: a bug, see its log")
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		e.Outcome = mainstem.Unknown
	}
	c.fail(e)
}
