package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testport"
)

var ordersLong = flag.Duration("orders.kill", 0, "how long the servers of the order services are killed, every 5 s; 0: a few times")

const (
	orderCustomers = 8
	ordersEach     = 25 // of a customer, without -orders.kill
	orderPeriod    = 5 * time.Second
	orderStock     = 1_000_000_000
)

// order is what a customer sends, and what the event and the message of an order contain.
type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Books    int    `json:"books"`
}

// orderService is the example of a client: a service in another language that takes orders over HTTP, on a
// mainstem server. The test kills both, and starts them again at the same addresses.
type orderService struct {
	t       *testing.T
	dir     string
	example func(args ...string) *exec.Cmd
	server  *process
	host    string // of the server, once it has run

	cmd    *exec.Cmd
	url    string // of the service, once it has run
	stderr bytes.Buffer

	mu struct {
		sync.Mutex
		acknowledged map[string]bool // by order: every order that was sent is here
		books        map[string]int
	}
	taken atomic.Int64 // orders that were acknowledged

	life struct { // of the present server
		sync.Mutex
		ctx  context.Context // ends when the server is killed
		stop context.CancelFunc
	}
}

// testOrders runs the example of a client while customers order at the same time, and kills the server with SIGKILL
// meanwhile, and once the service too. Some customers leave when the server is killed, the others send their
// order again until it is acknowledged. An order that was acknowledged has one event and one message; any other has
// both or neither; and the stock is what the events say.
func testOrders(t *testing.T, example func(args ...string) *exec.Cmd) {
	t.Helper()
	s := &orderService{t: t, dir: t.TempDir(), example: example}
	s.mu.acknowledged, s.mu.books = map[string]bool{}, map[string]int{}
	s.startServer()
	defer func() { s.server.kill() }()
	s.startService()
	defer s.stopService()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ending, end := context.WithCancel(ctx)
	defer end()
	each := ordersEach
	if *ordersLong > 0 {
		each = 1 << 30 // until end
	}
	var customers sync.WaitGroup
	for c := range orderCustomers {
		customers.Go(func() {
			for n := 0; n < each && ending.Err() == nil; n++ {
				s.buy(ctx, order{fmt.Sprintf("%d-%d", c, n), fmt.Sprintf("customer %d", c), 1 + n%3}, n%2 == 1)
			}
		})
	}
	defer customers.Wait() // after cancel
	defer cancel()
	if *ordersLong > 0 {
		s.killEvery(orderPeriod, *ordersLong)
		end()
	} else {
		s.killAtOrders()
	}
	customers.Wait()
	// What nobody waits for any more ends with the service, and with the server.
	s.stopService()
	s.killServer()
	s.startServer()
	s.check()
}

// killAtOrders kills the server when a quarter of the orders is acknowledged, when half of them is, with the service
// too, and so on.
func (s *orderService) killAtOrders() {
	s.t.Helper()
	const patient = orderCustomers * ordersEach / 2 // orders that are acknowledged for sure
	for kill := range 3 {
		want := int64(patient * (kill + 1) / 4)
		testkit.Eventually(s.t, fmt.Sprintf("%d orders are acknowledged", want), func() bool { return s.taken.Load() >= want })
		s.killServer()
		if kill == 1 {
			s.stopService()
		}
		s.startServer()
		if kill == 1 {
			s.startService()
		}
	}
}

// killEvery kills the server in every period of a time, and the service in every fourth. Between two kills orders are
// acknowledged.
func (s *orderService) killEvery(period, during time.Duration) {
	s.t.Helper()
	tick := time.NewTicker(period)
	defer tick.Stop()
	kills := int(during / period)
	for kill := range kills {
		select {
		case <-tick.C:
		case err := <-s.server.exited:
			s.t.Fatalf("the server ended by itself: %v\n%s", err, s.server.stderr.String())
		}
		before := s.taken.Load()
		s.killServer()
		if kill%4 == 3 {
			s.stopService()
		}
		s.startServer()
		if kill%4 == 3 {
			s.startService()
		}
		testkit.Eventually(s.t, "another order is acknowledged", func() bool { return s.taken.Load() > before })
	}
	s.t.Logf("%d orders acknowledged, %d kills", s.taken.Load(), kills)
}

// startServer starts the mainstem server, at the address that it had.
func (s *orderService) startServer() {
	s.t.Helper()
	if s.host == "" {
		s.host = testport.Address(s.t)
	}
	server, err := startServer(s.dir, os.Environ(), "--log", "data", "--durability", "os", "--listen", s.host)
	if err != nil {
		s.t.Fatal(err)
	}
	s.server = server
	s.life.Lock()
	defer s.life.Unlock()
	s.life.ctx, s.life.stop = context.WithCancel(context.Background())
}

// killServer kills the server, and ends what its present life bounds.
func (s *orderService) killServer() {
	s.server.kill()
	s.life.Lock()
	defer s.life.Unlock()
	s.life.stop()
}

// startService starts the example, at the address that it had.
func (s *orderService) startService() {
	s.t.Helper()
	listen := strings.TrimPrefix(s.url, "http://")
	if listen == "" {
		listen = testport.Address(s.t)
	}
	s.cmd = s.example(s.server.url, listen, strconv.Itoa(orderStock))
	s.cmd.Stderr = &s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	overdue := time.AfterFunc(testkit.Patience, func() { _ = s.cmd.Process.Kill() })
	defer overdue.Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	at, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !found {
		s.stopService()
		s.t.Fatalf("the service did not start: %q %v\n%s", line, err, s.stderr.String())
	}
	if s.url == "" { // customers read it
		s.url = at
	}
}

// stopService kills the service, and shows what it complained of.
func (s *orderService) stopService() {
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // that it was killed
	if s.stderr.Len() > 0 {
		s.t.Errorf("the service complains:\n%s", s.stderr.String())
		s.stderr.Reset()
	}
}

// buy sends an order until it is acknowledged or ctx ends. A customer that leaves sends it once, and leaves when the
// server is killed.
func (s *orderService) buy(ctx context.Context, o order, leaves bool) {
	s.mu.Lock()
	s.mu.acknowledged[o.ID], s.mu.books[o.ID] = false, o.Books
	s.mu.Unlock()
	if leaves {
		s.life.Lock()
		life := s.life.ctx
		s.life.Unlock()
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
	}
	again := backoff.Policy{First: 10 * time.Millisecond, Max: 200 * time.Millisecond}
	for tries := 1; ; tries++ {
		status, answer, err := s.post(ctx, o)
		switch {
		case err == nil && status == http.StatusCreated:
			s.mu.Lock()
			s.mu.acknowledged[o.ID] = true
			s.mu.Unlock()
			s.taken.Add(1)
			return
		case err == nil && status != http.StatusServiceUnavailable:
			s.t.Errorf("order %s: the service answers %d: %s", o.ID, status, answer)
			return
		}
		if leaves || !again.Wait(ctx, tries) {
			return
		}
	}
}

// post sends an order once.
func (s *orderService) post(ctx context.Context, o order) (status int, answer string, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return 0, "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/orders", bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Close = true // a connection for each, as of different customers
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return a.StatusCode, string(text), err
}

// placed is what the log has of the orders: their books, of every event and of every message.
type placed struct{ events, messages map[string][]int }

// check compares what the log has of each order with what its customer was answered.
func (s *orderService) check() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.placed()
	stock, lost := orderStock, 0
	for id, acknowledged := range s.mu.acknowledged {
		events, messages := p.events[id], p.messages[id]
		delete(p.events, id)
		delete(p.messages, id)
		if !acknowledged && len(events) == 0 && len(messages) == 0 {
			lost++
			continue
		}
		want := s.mu.books[id]
		stock -= want
		if len(events) != 1 || len(messages) != 1 || events[0] != want || messages[0] != want {
			s.t.Errorf("order %s (acknowledged: %t) of %d books has events of %v and messages of %v books, want one of each", id, acknowledged, want, events, messages)
		}
	}
	if len(p.events) > 0 || len(p.messages) > 0 {
		s.t.Errorf("there are events %v and messages %v of orders that nobody sent", p.events, p.messages)
	}
	if got := strings.TrimSpace(s.get("/v1/kv/shop/stock/book")); got != strconv.Itoa(stock) {
		s.t.Errorf("the stock is %s, want %d", got, stock)
	}
	s.t.Logf("%d orders: %d acknowledged, %d of the others not made", len(s.mu.acknowledged), s.taken.Load(), lost)
}

// placed reads all events and messages.
func (s *orderService) placed() placed {
	s.t.Helper()
	p := placed{map[string][]int{}, map[string][]int{}}
	for after, more := "0", true; more; {
		var page struct {
			Events []struct {
				Data struct {
					Order string
					Books int
				}
			}
			Next string
			More bool
		}
		s.getJSON("/v1/events/shop/feed?limit=1000&after="+after, &page)
		for _, e := range page.Events {
			p.events[e.Data.Order] = append(p.events[e.Data.Order], e.Data.Books)
		}
		after, more = page.Next, page.More
	}
	for offset, more := "0", true; more; {
		var page struct {
			Records []struct {
				JSON struct {
					Order string
					Books int
				}
			}
			Next, End string
		}
		s.getJSON("/v1/topics/mail?partition=0&as=json&limit=1000&offset="+offset, &page)
		for _, r := range page.Records {
			p.messages[r.JSON.Order] = append(p.messages[r.JSON.Order], r.JSON.Books)
		}
		offset, more = page.Next, page.Next != page.End
	}
	return p
}

func (s *orderService) getJSON(path string, into any) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.get(path)), into); err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
}

// get reads from the mainstem server.
func (s *orderService) get(path string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.server.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Close = true
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d %v: %s", path, a.StatusCode, err, text)
	}
	return string(text)
}
