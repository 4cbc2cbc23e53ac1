package remotelog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testport"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// Followers see every record once, in order, over connections that are cut again and
// again in the middle of messages.
func TestFollowersResumeWithoutHolesOrDuplicates(t *testing.T) {
	for name, o := range map[string]*remotelog.Options{
		"sessions": nil, "connect": {Transport: remotelog.RPC}, "grpc": {Protocol: remotelog.GRPC}, "grpc-web http1": {Protocol: remotelog.GRPCWeb, HTTP1: true}, "connect http1": {HTTP1: true},
	} {
		t.Run(name, func(t *testing.T) {
			behind := model.New(nil)
			p := newProxy(t, serve(t, behind, nil).Listener.Addr().String())
			log := open(t, p.url(), o)
			if _, err := log.Commit(t.Context(), put("", "k", "1")); err != nil {
				t.Fatal(err)
			}
			const total = 10_000
			var served sync.WaitGroup // until then a follower is as any other read, with few retries
			served.Add(2)
			go func() {
				served.Wait()
				p.cutAfter.Store(64 << 10)
				for i := 2; i <= total; {
					b := mainstem.NewBatch()
					for ; i <= total && len(b.Writes()) < 20; i++ {
						b.Put("s", []byte("k"), fmt.Appendf(nil, "%d", i))
						b.Put("s", []byte("other"), nil)
					}
					_, _ = behind.Commit(context.Background(), b) // a failure leaves a hole that is found
				}
			}()
			results := make(chan error, 2)
			go func() {
				results <- expect(noting(log.Read(t.Context(), "s", []byte("k"), mainstem.Versions{Follow: true, To: total}), served.Done), total)
			}()
			go func() {
				f := mainstem.Filter{Spaces: []string{"s"}, KeyPrefix: []byte("k"), Follow: true, Limit: total}
				results <- expect(noting(log.Feed(t.Context(), f), served.Done), total)
			}()
			for range 2 {
				if err := <-results; err != nil {
					t.Error(err)
				}
			}
			if p.cuts.Load() < 3 {
				t.Errorf("only %d connections were cut: this test shows nothing", p.cuts.Load())
			}
		})
	}
}

// noting calls began when the first record comes, or an error instead.
func noting(records iter.Seq2[mainstem.Record, error], began func()) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		first := sync.OnceFunc(began)
		for r, err := range records {
			first()
			if !yield(r, err) {
				return
			}
		}
	}
}

// expect returns an error unless records are the values 1 to total and nothing else.
func expect(records iter.Seq2[mainstem.Record, error], total int) error {
	n := 0
	for r, err := range records {
		if err != nil {
			return fmt.Errorf("after %d records: %w", n, err)
		}
		if n++; string(r.Value) != fmt.Sprint(n) || r.Version != mainstem.Version(n) || r.Space != "s" {
			return fmt.Errorf("record %d is %s@%d=%q in space %q", n, r.Key, r.Version, r.Value, r.Space)
		}
	}
	if n != total {
		return fmt.Errorf("%d records, want %d", n, total)
	}
	return nil
}

// restartable is a server that can be stopped and started at one address.
type restartable struct {
	t       *testing.T
	address string
	server  *http.Server
	handler *rpc.Handler
	done    chan struct{}
}

func (s *restartable) start(log mainstem.Log) {
	s.t.Helper()
	address := s.address
	if address == "" {
		address = testport.Address(s.t)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = l.Addr().String()
	mux := http.NewServeMux()
	path, h := rpc.NewHandler(log, nil)
	mux.Handle(path, h)
	mux.Handle(rpc.SessionPath, h)
	s.server, s.handler, s.done = &http.Server{Handler: mux}, h, make(chan struct{})
	rpc.ConfigureServer(s.server)
	go func(server *http.Server, done chan struct{}) {
		defer close(done)
		_ = server.Serve(l)
	}(s.server, s.done)
}

// stop ends the server gracefully, as node does.
func (s *restartable) stop() {
	s.t.Helper()
	if err := s.handler.Close(); err != nil {
		s.t.Error(err)
	}
	if err := s.server.Shutdown(context.Background()); err != nil {
		s.t.Error(err)
	}
	<-s.done
}

// follow runs a loop in a goroutine and returns its records, and its last error.
func follow(seq iter.Seq2[mainstem.Record, error]) (records <-chan mainstem.Record, end <-chan error) {
	r, e := make(chan mainstem.Record), make(chan error, 1)
	go func() {
		defer close(r)
		for record, err := range seq {
			if err != nil {
				e <- err
				return
			}
			r <- record.Clone()
		}
		e <- nil
	}()
	return r, e
}

func TestFollowersOutliveServer(t *testing.T) {
	behind := model.New(nil)
	s := &restartable{t: t}
	s.start(behind)
	log := open(t, "http://"+s.address, nil)
	if _, err := log.Commit(t.Context(), put("", "k", "v")); err != nil {
		t.Fatal(err)
	}
	feed, _ := follow(log.Feed(t.Context(), mainstem.Filter{Follow: true}))
	read, _ := follow(log.Read(t.Context(), "s", []byte("k"), mainstem.Versions{Follow: true}))
	for i := 1; i <= 4; i++ {
		if r := <-feed; r.Position != mainstem.Position(i) {
			t.Fatalf("the feed gave position %d, want %d", r.Position, i)
		}
		if r := <-read; r.Version != mainstem.Version(i) {
			t.Fatalf("the read gave version %d, want %d", r.Version, i)
		}
		s.stop()
		if _, err := behind.Commit(t.Context(), put("", "k", "v")); err != nil { // while nobody serves
			t.Fatal(err)
		}
		s.start(behind)
	}
	<-feed
	<-read
	s.stop()
}

func TestFollowerOfShorterLogEndsWithCorrupt(t *testing.T) {
	s := &restartable{t: t}
	s.start(logWith(t, 5))
	log := open(t, "http://"+s.address, nil)
	feed, end := follow(log.Feed(t.Context(), mainstem.Filter{Follow: true}))
	for range 5 {
		<-feed
	}
	s.stop()
	s.start(logWith(t, 3))
	defer s.stop()
	wantError(t, <-end, mainstem.KindCorrupt, mainstem.NoOutcome)
}

func logWith(t *testing.T, records int) mainstem.Log {
	t.Helper()
	log := model.New(nil)
	for range records {
		if _, err := log.Commit(t.Context(), put("", "k", "v")); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

func TestReaderOfSpaceCreatedAnewEndsWithNotFound(t *testing.T) {
	behind := logWith(t, 2)
	s := &restartable{t: t}
	s.start(behind)
	log := open(t, "http://"+s.address, nil)
	read, end := follow(log.Read(t.Context(), "s", []byte("k"), mainstem.Versions{Follow: true}))
	<-read
	<-read
	s.stop()
	if err := behind.DropSpace(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := behind.Commit(t.Context(), put("", "k", "v")); err != nil {
			t.Fatal(err)
		}
	}
	s.start(behind)
	defer s.stop()
	wantError(t, <-end, mainstem.KindNotFound, mainstem.NoOutcome)
}

func TestFollowerWithoutServerFailsAtOnce(t *testing.T) {
	log := open(t, "http://"+testport.Address(t), nil)
	n := 0
	for _, err := range log.Feed(t.Context(), mainstem.Filter{Follow: true}) {
		wantError(t, err, mainstem.KindUnavailable, mainstem.NoOutcome)
		n++
	}
	if n != 1 {
		t.Errorf("the loop body ran %d times, want once", n)
	}
}

func TestCloseEndsFollowersWithClosed(t *testing.T) {
	for name, o := range map[string]*remotelog.Options{"sessions": nil, "http2": {Transport: remotelog.RPC}, "http1": {HTTP1: true}} {
		t.Run(name, func(t *testing.T) {
			behind := logWith(t, 1)
			log := open(t, serve(t, behind, nil).URL, o)
			feed, feedEnd := follow(log.Feed(t.Context(), mainstem.Filter{Follow: true}))
			read, readEnd := follow(log.Read(t.Context(), "s", []byte("k"), mainstem.Versions{Follow: true}))
			<-feed
			<-read
			for range 2 { // twice is allowed
				if err := log.Close(); err != nil {
					t.Error(err)
				}
			}
			wantError(t, <-feedEnd, mainstem.KindClosed, mainstem.NoOutcome)
			wantError(t, <-readEnd, mainstem.KindClosed, mainstem.NoOutcome)
			for _, err := range log.Scan(t.Context(), "s", mainstem.Range{}) {
				wantError(t, err, mainstem.KindClosed, mainstem.NoOutcome)
			}
		})
	}
}

// A log closed between two tries of a follower that has lost its server.
func TestCloseEndsFollowerThatConnectsAgain(t *testing.T) {
	s := &restartable{t: t}
	s.start(logWith(t, 1))
	log := open(t, "http://"+s.address, nil)
	feed, end := follow(log.Feed(t.Context(), mainstem.Filter{Follow: true}))
	<-feed
	s.stop()
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	wantError(t, <-end, mainstem.KindClosed, mainstem.NoOutcome)
}

func TestCanceledFollowerSaysWhy(t *testing.T) {
	log := open(t, serve(t, logWith(t, 1), nil).URL, nil)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	feed, end := follow(log.Feed(ctx, mainstem.Filter{Follow: true}))
	<-feed
	cancel(why)
	if e := wantError(t, <-end, mainstem.KindCanceled, mainstem.NoOutcome); !errors.Is(e, why) {
		t.Errorf("the cause is %v", e.Err)
	}
}

// A sequence can be looped over again and starts at its beginning.
func TestSequencesRunAgain(t *testing.T) {
	log := open(t, serve(t, logWith(t, 3), nil).URL, nil)
	for name, seq := range map[string]iter.Seq2[mainstem.Record, error]{
		"feed": log.Feed(t.Context(), mainstem.Filter{Follow: true, Limit: 3}),
		"read": log.Read(t.Context(), "s", []byte("k"), mainstem.Versions{Follow: true, Limit: 3}),
		"scan": log.Scan(t.Context(), "s", mainstem.Range{}),
	} {
		var counts [2]int
		for i := range counts {
			for _, err := range seq {
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				counts[i]++
			}
		}
		if counts[0] == 0 || counts[0] != counts[1] {
			t.Errorf("%s: %d records, then %d", name, counts[0], counts[1])
		}
	}
}

// More followers than one HTTP/2 connection carries, and other calls beside them.
func TestManyFollowers(t *testing.T) {
	behind := logWith(t, 1)
	log := open(t, serve(t, behind, nil).URL, nil)
	const followers = 300
	began, done := make(chan struct{}), make(chan error)
	for range followers {
		go func() {
			n := 0
			for _, err := range log.Feed(t.Context(), mainstem.Filter{Spaces: []string{"s"}, Follow: true, Limit: 2}) {
				if err != nil {
					done <- err
					return
				}
				if n++; n == 1 {
					began <- struct{}{}
				}
			}
			done <- nil
		}()
	}
	for range followers {
		select {
		case <-began:
		case err := <-done:
			t.Fatal(err)
		}
	}
	if _, err := log.Commit(t.Context(), put("", "k", "v")); err != nil {
		t.Fatal(err)
	}
	for range followers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
