package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/accept"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/group"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/producer"
)

// Server serves Kafka's protocol over the topics of one log. [Open] makes it,
// [Server.Shutdown] ends it. Its methods may be called from many goroutines.
type Server struct {
	o         Options
	log       mainstem.Log
	topics    *topic.Catalog
	producers *producer.Manager
	groups    *group.Coordinator
	cluster   clusterID

	ctx         context.Context // done once Shutdown has marked all connections as draining; ends all waits
	stop        context.CancelFunc
	requests    *budget.Budget                          // bytes of requests that are being read or served, and of decoding them
	answers     *budget.Budget                          // bytes of answers that are built or written
	building    chan struct{}                           // a semaphore: an element for each request of wide that is being served
	dummySecret dummySecret                             // seed of the credentials that users who do not exist seem to have
	stable      wake.Set[partitionKey, chan<- struct{}] // read-committed fetches that wait for the end of a transaction
	topicCache  topicCache                              // topics found by the latest Produce and Fetch requests

	autoCreation autoCreation

	mu struct {
		sync.Mutex
		closing   bool // Shutdown was called. Invariant: no listener or connection is added any more
		listeners map[net.Listener]*Listener
		conns     map[*conn]struct{} // at most Options.MaxConnections
	}
	running sync.WaitGroup // goroutines of connections; incremented under mu while closing is false
}

// Open returns a server of the topics of a catalog. Transactions and groups are as the
// previous server left them in the log, also if it crashed: transactions are read before Open
// returns, groups afterwards. ctx bounds only this call. The catalog and its log stay the
// caller's: shut the server down before closing them. Options that are out of range are
// Invalid.
//
// A log must have at most one such server at a time, because it coordinates all groups and
// transactions. The caller must ensure that; package kafkaserver does so with a lease.
func Open(ctx context.Context, topics *topic.Catalog, o *Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{o: o.withDefaults(), log: topics.Log(), topics: topics}
	s.mu.listeners = map[net.Listener]*Listener{}
	s.mu.conns = map[*conn]struct{}{}
	s.requests = s.o.Memory.Child("kafka requests", int64(s.o.MaxInFlight))
	s.answers = s.o.Memory.Child("kafka answers", int64(s.o.MaxInFlight))
	s.building = make(chan struct{}, maxBuilding)
	s.ctx, s.stop = context.WithCancel(context.Background())
	if err := s.openCoordinators(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// Serve accepts connections from l, with the security and the address of as, and serves each
// in a goroutine of its own. It returns nil when the server is shut down, and the error of l
// when accepting fails before that. A temporary error, such as too many open files, is logged,
// and Serve tries again after a pause. Shutdown closes l. If as is invalid, the error is Invalid
// and l stays the caller's; if the server was shut down before, the error is Closed and l is
// closed. Several listeners may be served at once.
func (s *Server) Serve(l net.Listener, as *Listener) error {
	if err := as.validate(); err != nil {
		return err
	}
	if as == nil {
		as = &Listener{}
	}
	if !s.add(l, as) {
		_ = l.Close()
		return mainstem.Errorf(mainstem.KindClosed, "kafka", "the server was shut down")
	}
	failed := func(inARow int, err error) {
		s.o.Logger.Warn("kafka connection not accepted: trying again", "listener", l.Addr(), "failures in a row", inARow, "error", err)
	}
	for {
		nc, err := accept.Next(s.ctx, l.Accept, failed)
		switch {
		case err == nil:
			s.accept(nc, l, as)
		case s.remove(l):
			return err
		default:
			return nil
		}
	}
}

func (s *Server) add(l net.Listener, as *Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closing {
		return false
	}
	s.mu.listeners[l] = as
	return true
}

// remove forgets a listener whose Accept has failed, and returns whether the failure is an
// error: false means that Shutdown has closed it.
func (s *Server) remove(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.listeners, l)
	return !s.mu.closing
}

// accept starts the goroutine of one connection. It closes the connection instead if the
// server is shutting down or has too many.
func (s *Server) accept(nc net.Conn, l net.Listener, as *Listener) {
	if as.TLS != nil {
		nc = tls.Server(nc, as.TLS)
	}
	c := newConn(s, nc, l, as)
	s.mu.Lock()
	full := len(s.mu.conns) >= s.o.MaxConnections
	if s.mu.closing || full {
		s.mu.Unlock()
		if full { // counted before the client can notice
			s.o.Metrics.Refused()
			s.o.Logger.Warn("kafka connection refused: there are too many", "client", nc.RemoteAddr(), "limit", s.o.MaxConnections)
		}
		_ = nc.Close()
		return
	}
	s.mu.conns[c] = struct{}{}
	s.running.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.running.Done()
		s.o.Metrics.Connected(1)
		defer s.o.Metrics.Connected(-1)
		c.serve()
		s.mu.Lock()
		delete(s.mu.conns, c)
		s.mu.Unlock()
	}()
}

// Shutdown closes the listeners, ends all waits of requests (for records, members or
// memory), lets requests that are being read or served finish, closes the connections and
// then the coordinators of groups and transactions. When ctx ends first, the connections are
// closed at once and the error says so; Shutdown still waits until their goroutines have
// ended, that is, until commits under way have returned. Nothing that was acknowledged is lost
// either way. Shutting down twice is allowed.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.mu.closing = true
	for l := range s.mu.listeners {
		_ = l.Close()
	}
	for c := range s.mu.conns {
		c.drain()
	}
	s.mu.Unlock()
	s.stop()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	var err error
	began := time.Now()
	select {
	case <-done:
	case <-ctx.Done():
		err = mainstem.Ended(ctx, "stop the Kafka server", began, "requests under way")
		s.mu.Lock()
		for c := range s.mu.conns {
			c.kill()
		}
		s.mu.Unlock()
		<-done
	}
	return errors.Join(err, s.closeCoordinators())
}
