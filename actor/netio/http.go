package netio

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/mainstemdev/mainstem/actor"
)

// Limits of HTTP.
const (
	MaxBody        = 4 << 20          // bytes of the body of a request, unless HandlerOptions say otherwise
	DefaultTimeout = 30 * time.Second // until a request must have been answered
	headerTimeout  = 10 * time.Second // for the header of a request to come
)

// Server is an actor that owns an HTTP server. It takes the question for its [Address].
// When it is asked to end, it accepts nothing more and waits for requests under way.
type Server struct {
	// Address is where it listens, like that of net.Listen.
	Address string
	// Handler serves: any of net/http, or one that [Handler] made.
	Handler http.Handler
	// TLS, if set, makes it a server of HTTPS. HTTP/2 is on if NextProtos has h2.
	TLS *tls.Config
	// Grace is how long it waits for requests under way. Default [DefaultGrace]. The
	// actor's own Grace should be longer.
	Grace time.Duration

	listener net.Listener
	done     chan struct{}
}

// Start listens and serves. It fails if listening does.
func (s *Server) Start(c *actor.Context[Address]) error {
	if s.Handler == nil {
		return invalidf("Server.Handler is not set")
	}
	listener, err := listen(c, "tcp", s.Address, s.TLS)
	if err != nil {
		return err
	}
	s.listener, s.done = listener, make(chan struct{})
	server := &http.Server{Handler: s.Handler, ReadHeaderTimeout: headerTimeout}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	go s.watch(c, c.Self(), c.Done(), s.done, server, served)
	return nil
}

// watch ends the server when the actor is asked to end, and the actor when the
// server ends.
func (s *Server) watch(ctx context.Context, self actor.Ref[Address], ending <-chan struct{}, done chan struct{}, server *http.Server, served <-chan error) {
	defer close(done)
	select {
	case err := <-served:
		_ = self.SendPriority(ctx, actor.System, Address{err: err, over: true}) // it may have ended
		return
	case <-ending:
	}
	grace := s.Grace
	if grace == 0 {
		grace = DefaultGrace
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(within); err != nil {
		_ = server.Close() // those under way have had their time
	}
	<-served
}

// Receive says where the server listens.
func (s *Server) Receive(_ *actor.Context[Address], m Address) error {
	if m.over {
		return m.err
	}
	_ = m.Reply.Send(s.listener.Addr()) // whether anybody waits is not our business
	return nil
}

// Stop waits until the server has ended.
func (s *Server) Stop(*actor.Context[Address], error) {
	if s.done != nil {
		<-s.done
	}
}

// Request is an HTTP request as a message. Its receiver answers it through Reply.
type Request struct {
	// HTTP is the request. Its Body has been read; its context ends when nobody waits
	// for the answer any more.
	HTTP *http.Request
	// Body is what was in it.
	Body  []byte
	Reply actor.Reply[Response]
}

// Response is the answer to a [Request].
type Response struct {
	Status int // 0 means 200
	Header http.Header
	Body   []byte
}

// HandlerOptions configure a [Handler]; nil means the defaults.
type HandlerOptions struct {
	// MaxBody is how many bytes a body may have; a longer one is answered with status
	// 413. Default [MaxBody].
	MaxBody int64
	// Timeout is how long an answer may take; then it is status 504. Default [DefaultTimeout].
	Timeout time.Duration
}

// Handler makes a message for an actor of each HTTP request. Use a pool or a router to
// spread them over several. If the actor has stopped or has no room, the status is 503; if
// it fails while it has the request, or answers with an error, 500.
func Handler(to actor.Ref[Request], o *HandlerOptions) http.Handler {
	opts := HandlerOptions{MaxBody: MaxBody, Timeout: DefaultTimeout}
	if o != nil && o.MaxBody > 0 {
		opts.MaxBody = o.MaxBody
	}
	if o != nil && o.Timeout > 0 {
		opts.Timeout = o.Timeout
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, opts.MaxBody))
		if err != nil {
			status := http.StatusBadRequest
			if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, http.StatusText(status), status)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), opts.Timeout)
		defer cancel()
		answer, err := actor.Ask(ctx, to, func(reply actor.Reply[Response]) Request {
			return Request{HTTP: r.WithContext(ctx), Body: body, Reply: reply}
		})
		if err != nil {
			status := statusOf(err)
			http.Error(w, http.StatusText(status), status)
			return
		}
		answer.write(w)
	})
}

func (a Response) write(w http.ResponseWriter) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	switch {
	case a.Status >= 100 && a.Status <= 999:
		w.WriteHeader(a.Status)
	case a.Status != 0: // net/http would panic
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(a.Body) // a client that has gone is not our business
}

// statusOf returns the status for a request that was not answered. Internal
// errors are not shown to the client.
func statusOf(err error) int {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	case errors.Is(err, actor.ErrNoReply):
		return http.StatusInternalServerError
	case errors.Is(err, actor.ErrStopped), errors.Is(err, actor.ErrMailboxFull), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
