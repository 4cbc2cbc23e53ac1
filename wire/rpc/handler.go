package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	wire "github.com/mainstemdev/mainstem/internal/session"
	"github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1/mainstemv1connect"
)

// closeGrace is how long [Handler.Close] waits for a client: for the rest of its request, and then
// until it has read its answer.
const closeGrace = time.Second

// compressFrom is the size of the smallest response that is compressed, in bytes.
const compressFrom = 1 << 10

// errStopping is the cause of the end of streams when the handler is closed.
var errStopping = errors.New("the server is stopping")

// Handler serves one log over HTTP. [NewHandler] makes it. Its methods may be called from many
// goroutines.
type Handler struct {
	o         Options
	inner     http.Handler
	errors    *connect.ErrorWriter
	service   *service
	tokenHash atomic.Pointer[[sha256.Size]byte] // nil: no token is required

	memory     memory
	streams    atomic.Int64 // streams being served
	snapshots  *snapshots
	sessions   sessionCounters
	space      atomic.Pointer[string] // the last space named by a call of a session
	ensured    message.Ensured        // spaces ensured by commits of sessions
	lastCommit atomic.Int64           // duration of the last commit of a session, in nanoseconds
	watchEvery time.Duration          // see defaultWatchEvery
	tokenGrace time.Duration          // see defaultTokenGrace
	workers    workers                // of sessions

	stopping context.Context // done when Close is called
	stop     context.CancelFunc
	mu       struct {
		sync.Mutex
		closed    bool
		exchanges map[*exchange]struct{} // requests being served
		sessions  map[*session]struct{}  // that have not ended
		outcomes  map[wire.Key]*outcomes // of clients that have a session, or may resume one
		lost      []*outcomes            // those without a connection, in the order in which they lost it
		idle      chan struct{}          // closed when Close was called and no exchanges and sessions are left; nil before Close
	}
}

// NewHandler returns a handler that serves log, and the path below which an [http.ServeMux]
// should route to it. The caller owns the log and must close the handler before it.
func NewHandler(log mainstem.Log, o *Options) (path string, h *Handler) {
	h = &Handler{o: o.withDefaults(), watchEvery: defaultWatchEvery, tokenGrace: defaultTokenGrace}
	h.workers.init()
	h.stopping, h.stop = context.WithCancel(context.Background())
	h.memory = newMemory(&h.o)
	h.mu.exchanges = map[*exchange]struct{}{}
	h.snapshots = newSnapshots(log, h.o.MaxSnapshots, h.o.SnapshotLease)
	h.mu.sessions = map[*session]struct{}{}
	h.mu.outcomes = map[wire.Key]*outcomes{}
	h.tokenHash.Store(hashOf(h.o.Token))
	h.service = &service{log: log, h: h}
	options := h.connectOptions()
	path, h.inner = mainstemv1connect.NewLogServiceHandler(h.service, options...)
	h.errors = connect.NewErrorWriter(options...)
	return path, h
}

func (h *Handler) connectOptions() []connect.HandlerOption {
	options := []connect.HandlerOption{
		connect.WithCodec(binaryCodec{h.o.MaxParts}),
		connect.WithCodec(jsonCodec{"json", h.o.MaxParts}),
		connect.WithCodec(jsonCodec{"json; charset=utf-8", h.o.MaxParts}),
		connect.WithCompressMinBytes(compressFrom),
		connect.WithReadMaxBytes(h.o.MaxRequest),
		connect.WithConditionalHandlerOptions(func(s connect.Spec) []connect.HandlerOption {
			if s.Procedure == mainstemv1connect.LogServiceCommitProcedure {
				return []connect.HandlerOption{connect.WithReadMaxBytes(h.o.MaxCommit)}
			}
			return nil
		}),
		connect.WithRecover(h.recovered),
	}
	if !h.o.Compression {
		options = append(options, connect.WithCompression("gzip", nil, nil))
	}
	return append(options, h.o.HandlerOptions...)
}

// recovered returns the error for a call that has panicked. Other calls are not affected.
func (h *Handler) recovered(ctx context.Context, s connect.Spec, _ http.Header, v any) error {
	h.o.Logger.ErrorContext(ctx, "rpc: a call panicked", "procedure", s.Procedure, "panic", v, "stack", string(debug.Stack()))
	return message.EncodeError(fmt.Errorf("the server failed: a bug, see its log"), outcomeOf(s.Procedure))
}

// outcomeOf returns the outcome of a call that has ended without an answer from the log.
func outcomeOf(procedure string) mainstem.Outcome {
	switch procedure {
	case mainstemv1connect.LogServiceCommitProcedure, mainstemv1connect.LogServiceCreateSpaceProcedure,
		mainstemv1connect.LogServiceAlterSpaceProcedure, mainstemv1connect.LogServiceDropSpaceProcedure:
		return mainstem.Unknown
	}
	return mainstem.NoOutcome
}

// ServeHTTP serves one call.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would buffer records for followers
	session := strings.HasSuffix(r.URL.Path, SessionPath)
	if !h.authorized(r) {
		if session {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the bearer token is missing or wrong", http.StatusUnauthorized)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		h.refuse(w, r, connect.CodeUnauthenticated, mainstem.Errorf(mainstem.KindDenied, "rpc", "the bearer token is missing or wrong"))
		return
	}
	if session {
		h.serveSession(w, r)
		return
	}
	x := newExchange(h, w, r)
	if !h.begin(x) {
		h.refuse(w, r, connect.CodeUnavailable, &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "rpc", Err: errStopping})
		return
	}
	defer h.end(x)
	r.Body = x
	h.inner.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
}

// authorized checks the token of a request. It compares hashes in constant time, so that not even
// the length of the token leaks.
func (h *Handler) authorized(r *http.Request) bool {
	want := h.tokenHash.Load()
	if want == nil {
		return true
	}
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := tokenSum(r)
	return subtle.ConstantTimeCompare(sum[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// tokenSum returns the hash of the token of a request.
func tokenSum(r *http.Request) [sha256.Size]byte {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return sha256.Sum256([]byte(token))
}

// hashOf returns the hash of a token, or nil if it is empty.
func hashOf(token string) *[sha256.Size]byte {
	if token == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(token))
	return &sum
}

// refuse answers a call that does not reach the log, in the protocol of the client.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, code connect.Code, e *mainstem.Error) {
	if outcomeOf(r.URL.Path) != mainstem.NoOutcome {
		e.Outcome = mainstem.NotWritten
	}
	full := message.EncodeError(e, e.Outcome)
	out := connect.NewError(code, errors.New(full.Message()))
	for _, d := range full.Details() {
		out.AddDetail(d)
	}
	_ = h.errors.Write(w, r, out) // fails only if the client is gone
}

func (h *Handler) begin(x *exchange) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.closed {
		return false
	}
	h.mu.exchanges[x] = struct{}{}
	return true
}

func (h *Handler) end(x *exchange) {
	x.finish()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.exchanges, x)
	h.idleLocked()
}

func (h *Handler) idleLocked() {
	if h.mu.closed && len(h.mu.exchanges)+len(h.mu.sessions) == 0 {
		close(h.mu.idle)
	}
}

// Close refuses further calls, ends streams with Unavailable, so that followers connect again,
// waits for running calls and closes all snapshots. It waits for a call as long as the log takes to
// execute it, but for a client not longer than a second or two: for the rest of a request, or until
// an answer is read. It must be called before http.Server.Shutdown, which waits for followers
// without end, and before the log is closed. It may be called twice.
func (h *Handler) Close() error {
	h.mu.Lock()
	if !h.mu.closed {
		h.mu.closed = true
		h.mu.idle = make(chan struct{})
		h.idleLocked()
		for x := range h.mu.exchanges {
			x.close()
		}
		for s := range h.mu.sessions {
			s.drain(errStopping)
			s.leave()
		}
	}
	idle := h.mu.idle
	h.mu.Unlock()

	h.stop()
	h.forgetLost()
	<-idle
	return h.snapshots.closeAll()
}
