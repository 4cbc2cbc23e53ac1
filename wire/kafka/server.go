package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/group"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/producer"
)

// Server serves Kafka's protocol over the topics of one log. Its methods may be
// called from many goroutines.
type Server struct {
	o         Options
	log       mainstem.Log
	topics    *topic.Catalog
	producers *producer.Manager
	groups    *group.Coordinator
	cluster   clusterID

	ctx         context.Context // done when Shutdown begins to close connections
	stop        context.CancelFunc
	requests    *budget.Budget                          // bytes of requests that are being read or served, and of what decoding them takes
	answers     *budget.Budget                          // bytes of answers that are on their way
	building    chan struct{}                           // has an element for each answer to a request of wide that is being built
	dummySecret dummySecret                             // of users that do not exist
	stable      wake.Set[partitionKey, chan<- struct{}] // read-committed fetches that wait for the end of a transaction
	topicCache  topicCache                              // topics

	autoCreation autoCreation

	mu struct {
		sync.Mutex
		closing   bool
		listeners map[net.Listener]*Listener
		conns     map[*conn]struct{}
	}
	running sync.WaitGroup // connections
}

// Open returns a server of the topics of a catalog. It reads what groups and
// transactions were doing when the server before it ended, however it ended. The
// catalog and its log stay the caller's: shut the server down before closing them.
//
// A log must have one such server at a time: it is the coordinator of all groups and
// transactions. The caller sees to that; package kafkaserver does with a lease.
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

// Serve accepts connections from l and serves them until l fails or the server is
// shut down; then it returns nil. The listener belongs to the server from now on.
// Several listeners may be served at once, each with its own address to advertise
// and its own security.
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
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.remove(l) {
				return err
			}
			return nil
		}
		s.accept(nc, l, as)
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

// remove forgets a listener and says whether that comes as a surprise.
func (s *Server) remove(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.listeners, l)
	return !s.mu.closing
}

// accept serves one connection in a goroutine of its own, or closes it.
func (s *Server) accept(nc net.Conn, l net.Listener, as *Listener) {
	if as.TLS != nil {
		nc = tls.Server(nc, as.TLS)
	}
	c := newConn(s, nc, l, as)
	s.mu.Lock()
	full := len(s.mu.conns) >= s.o.MaxConnections
	if s.mu.closing || full {
		s.mu.Unlock()
		_ = nc.Close()
		if full {
			s.o.Metrics.Refused()
			s.o.Logger.Warn("kafka connection refused: there are too many", "client", nc.RemoteAddr(), "limit", s.o.MaxConnections)
		}
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

// Shutdown stops accepting, lets the requests that are being served finish, ends
// what waits, closes all connections and ends what the server owns. When ctx ends
// first, connections are closed at once, and the error says so. Nothing that was
// acknowledged is lost either way. Shutting down twice is allowed.
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
