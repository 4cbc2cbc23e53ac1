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
	DefaultTimeout = 30 * time.Second // default of HandlerOptions.Timeout
	headerTimeout  = 10 * time.Second // time in which the header of a request must arrive
)

// Server is an actor that owns an HTTP server. Its only message is the question for its [Address].
// When it is asked to end, or serving fails, it stops listening and waits for the requests that have
// begun. Its exit reason is the error of serving if that fails. Set its exported fields and spawn it.
type Server struct {
	// Address is the TCP address on which it listens, as for net.Listen.
	Address string
	// Handler serves the requests: any http.Handler, such as one of [Handler]. It must be set.
	Handler http.Handler
	// TLS, if set, makes it a server of HTTPS. HTTP/2 is on if NextProtos has h2.
	TLS *tls.Config
	// Grace is how long it waits for requests that have begun; then their connections are closed.
	// Default [DefaultGrace]. Options.Grace of the actor should be longer.
	Grace time.Duration

	listener net.Listener
	done     chan struct{} // closed when watch returns; nil until Start listens
}

// Start listens and serves. It fails with Invalid if Handler is not set, or with the error of
// listening.
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
	go func() {
		defer close(served)
		served <- server.Serve(listener)
	}()
	go s.watch(c, c.Self(), c.Done(), s.done, server, served)
	return nil
}

// watch shuts the server down when the actor is asked to end. When serving fails, it also sends the
// actor a message that ends it.
func (s *Server) watch(ctx context.Context, self actor.Ref[Address], ending <-chan struct{}, done chan struct{}, server *http.Server, served <-chan error) {
	defer close(done)
	select {
	case err := <-served:
		_ = self.SendPriority(ctx, actor.System, Address{from: s.listener, err: err}) // fails if it has ended
	case <-ending:
	}
	grace := s.Grace
	if grace == 0 {
		grace = DefaultGrace
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(within); err != nil {
		_ = server.Close() // the Grace is over
	}
	<-served
}

// Receive answers the question for the address, or ends the actor if serving has failed.
func (s *Server) Receive(_ *actor.Context[Address], m Address) error {
	switch m.from {
	case nil:
		_ = m.Reply.Send(s.listener.Addr()) // fails if nobody waits any more
	case s.listener:
		return m.err
	}
	return nil // else it is of an earlier incarnation
}

// Stop waits until the server has ended.
func (s *Server) Stop(*actor.Context[Address], error) {
	if s.done != nil {
		<-s.done
	}
}

// Request is an HTTP request as a message. Its receiver must answer it through Reply.
type Request struct {
	// HTTP is the request. Its Body has been read. Its context ends when the request has been
	// answered, the client has gone, or the time limit of the Handler is over.
	HTTP *http.Request
	// Body are the bytes of the body. They belong to the receiver.
	Body  []byte
	Reply actor.Reply[Response]
}

// Response is the answer to a [Request].
type Response struct {
	Status int // 0 means 200; an impossible one is sent as 500
	Header http.Header
	Body   []byte
}

// HandlerOptions configure a [Handler]; nil means the defaults.
type HandlerOptions struct {
	// MaxBody is the greatest number of bytes of a body; a request with a longer one is answered
	// with status 413. Default [MaxBody].
	MaxBody int64
	// Timeout is the time limit of an answer, from the end of the body; after it the status is 504.
	// Default [DefaultTimeout].
	Timeout time.Duration
}

// Handler returns a handler that asks an actor each HTTP request. to may be a pool or a router. The
// handler reads the whole body first. If there is no answer, the status is 503 if the actor has
// ended, has a full mailbox, or the client has gone; 504 after the time limit; and 500 if the actor
// fails during the request or answers with another error. The text of an error is not sent to the
// client.
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

// write sends the answer to the client.
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
	_, _ = w.Write(a.Body) // fails if the client has gone
}

// statusOf returns the status for an error of Ask.
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
