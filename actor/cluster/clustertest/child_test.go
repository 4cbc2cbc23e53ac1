package clustertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
)

// childVariable makes the test binary a child: its value says what it is.
const childVariable = "CLUSTERTEST_CHILD"

func TestMain(m *testing.M) {
	flag.Parse()
	switch role, args, _ := strings.Cut(os.Getenv(childVariable), " "); role {
	case "":
		goleak.VerifyTestMain(m)
	case "node":
		if err := runNode(args, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "wire":
		if err := runWire(args, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// The times of the clusters here: shorter than the defaults, so that the tests are.
const (
	downAfter = 4 * time.Second
	askTime   = 2 * time.Second
)

// Inc is one increment of a counter. Each has a number of its own, the next after the
// last of its sender; with a Reply the sender waits for it to be counted.
type Inc struct {
	From  string           `bin:"1"`
	N     int              `bin:"2"`
	Reply actor.Reply[int] `bin:"3"`
}

// setup is what a node is started with.
type setup struct {
	Name   string
	Listen string
	Peers  map[string]string
}

// request and response are the lines that a node reads and writes.
type request struct {
	Do    string
	Via   string // load: the node whose gateway passes increments on
	To    string // load, monitor: the node that they are for
	Count int    // monitor, mortals: how many
}

type response struct {
	Error string

	Sent  map[string]int   // stop: the last number of each sender
	Acked map[string][]int // acked, stop: the numbers that were answered
	Seen  map[string][]int // report: the numbers that were counted, in their order

	Downs   map[string][]string // downs: the reasons that each monitor got
	Nodes   []string            // nodes: who is up
	Heap    uint64              // vitals: bytes in use after a collection
	Routine int                 // vitals: goroutines
}

// program is a node of a cluster in a process.
type program struct {
	node    *actor.Node
	cluster *cluster.Cluster

	mu    sync.Mutex // guards the fields below
	seen  map[string][]int
	downs map[string][]string

	load  *load
	loads int      // started so far: the senders of each have names of their own
	ends  []func() // what stops the mortals
}

func runNode(args string, in io.Reader, out io.Writer) error {
	var s setup
	if err := json.Unmarshal([]byte(args), &s); err != nil {
		return err
	}
	p := &program{seen: make(map[string][]int), downs: make(map[string][]string)}
	if err := p.open(&s); err != nil {
		return err
	}
	w := json.NewEncoder(out)
	if err := w.Encode(response{}); err != nil { // it is there
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var q request
		err := json.Unmarshal(lines.Bytes(), &q)
		var r response
		if err == nil {
			r, err = p.do(&q)
		}
		if err != nil {
			r.Error = err.Error()
		}
		if err := w.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) open(s *setup) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	var err error
	if p.node, err = actor.Open(s.Name, &actor.NodeOptions{Logger: logger}); err != nil {
		return err
	}
	p.cluster, err = cluster.Join(p.node, &cluster.Options{
		Listen: s.Listen, Peers: s.Peers, Plain: true, Secret: []byte("known to the three of them"), DownAfter: downAfter, Logger: logger,
		Tune: func(o *link.Options) { o.KeepAlive, o.MaxBackoff = 500*time.Millisecond, 500*time.Millisecond },
	})
	if err != nil {
		return err
	}
	if err := p.cluster.Register("inc", Inc{}); err != nil {
		return err
	}
	_, err = actor.Spawn(p.node, actor.Func[Inc](p.count), &actor.Options{Name: "counter"})
	return err
}

// count is the counter of the node.
func (p *program) count(_ *actor.Context[Inc], m Inc) error {
	p.mu.Lock()
	p.seen[m.From] = append(p.seen[m.From], m.N)
	n := len(p.seen[m.From])
	p.mu.Unlock()
	_ = m.Reply.Send(n) // who asked may have given up
	return nil
}

func (p *program) do(q *request) (response, error) {
	var r response
	switch q.Do {
	case "gateway":
		return r, p.gateway(q.To)
	case "load":
		p.loads++
		p.load = startLoad(p, q.Via)
	case "acked":
		r.Acked = p.load.answered()
	case "stop":
		r.Sent, r.Acked = p.load.stop()
	case "report":
		p.mu.Lock()
		defer p.mu.Unlock()
		r.Seen = make(map[string][]int)
		for from, ns := range p.seen {
			r.Seen[from] = append([]int(nil), ns...)
		}
	case "forget":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.seen, p.downs = make(map[string][]int), make(map[string][]string)
	case "mortals":
		return r, p.mortals(q.Count)
	case "end":
		for _, end := range p.ends {
			end()
		}
		p.ends = nil
	case "monitor":
		return r, p.monitor(q.To, q.Count)
	case "downs":
		p.mu.Lock()
		defer p.mu.Unlock()
		r.Downs = make(map[string][]string)
		for name, reasons := range p.downs {
			r.Downs[name] = append([]string(nil), reasons...)
		}
	case "nodes":
		for _, n := range p.cluster.Nodes() {
			r.Nodes = append(r.Nodes, n.Name)
		}
	case "vitals":
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		r.Heap, r.Routine = m.HeapAlloc, runtime.NumGoroutine()
	case "leave":
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return r, errors.Join(p.cluster.Leave(ctx), p.node.Stop(ctx))
	default:
		return r, fmt.Errorf("nobody knows how to %q", q.Do)
	}
	return r, nil
}

// gateway starts an actor that passes increments on to the counter of another node:
// their answers go straight to the asker.
func (p *program) gateway(to string) error {
	counter, err := cluster.Ref[Inc](p.cluster, to, "counter")
	if err != nil {
		return err
	}
	_, err = actor.Spawn(p.node, actor.Func[Inc](func(c *actor.Context[Inc], m Inc) error {
		_ = counter.Send(c, m)
		return nil
	}), &actor.Options{Name: "gateway"})
	return err
}

// mortals starts actors that others monitor.
func (p *program) mortals(count int) error {
	for i := range count {
		r, err := actor.Spawn(p.node, actor.Func[Inc](func(*actor.Context[Inc], Inc) error { return nil }), &actor.Options{Name: fmt.Sprint("mortal-", i)})
		if err != nil {
			return err
		}
		if i%2 == 0 { // the others live on
			p.ends = append(p.ends, r.Kill)
		}
	}
	return nil
}

// monitor lets an actor monitor those of another node.
func (p *program) monitor(to string, count int) error {
	_, err := actor.Spawn(p.node, actor.Func[Inc](func(c *actor.Context[Inc], _ Inc) error { return nil }), nil)
	if err != nil {
		return err
	}
	watch := actor.Func[int](func(c *actor.Context[int], i int) error {
		name := fmt.Sprint("mortal-", i)
		r, err := cluster.Ref[Inc](p.cluster, to, name)
		if err != nil {
			return err
		}
		c.Monitor(r, func(d actor.Down) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			reason, _ := actor.ReasonName(d.Reason)
			p.downs[name] = append(p.downs[name], reason)
			return nil
		})
		return nil
	})
	w, err := actor.Spawn(p.node, watch, nil)
	for i := range count {
		err = errors.Join(err, w.Send(context.Background(), i))
	}
	return err
}

// load are senders that increment a counter.
type load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	sent   map[string]int
	acked  map[string][]int
}

const (
	askers = 8
	pacing = 2 * time.Millisecond
)

// startLoad starts askers, which wait for each answer, and a teller, which does not.
func startLoad(p *program, via string) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel, sent: make(map[string]int), acked: make(map[string][]int)}
	to, err := cluster.Ref[Inc](p.cluster, via, "gateway")
	if err != nil {
		cancel()
		return l
	}
	for i := range askers {
		l.wg.Go(func() { l.ask(ctx, to, fmt.Sprintf("%d asks %d", p.loads, i)) })
	}
	l.wg.Go(func() { l.tell(ctx, to, fmt.Sprintf("%d tells", p.loads)) })
	return l
}

func (l *load) ask(ctx context.Context, to actor.Ref[Inc], from string) {
	for n := 1; ctx.Err() == nil; n++ {
		l.note(from, n)
		one, cancel := context.WithTimeout(ctx, askTime)
		_, err := actor.Ask(one, to, func(r actor.Reply[int]) Inc { return Inc{from, n, r} })
		cancel()
		if err == nil {
			l.mu.Lock()
			l.acked[from] = append(l.acked[from], n)
			l.mu.Unlock()
		}
		pause(ctx)
	}
}

// tell counts only the messages that Send has accepted: the others were certainly not sent.
func (l *load) tell(ctx context.Context, to actor.Ref[Inc], from string) {
	for n := 1; ctx.Err() == nil; pause(ctx) {
		if to.Send(ctx, Inc{From: from, N: n}) == nil {
			l.note(from, n)
			n++
		}
	}
}

func (l *load) note(from string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[from] = n
}

// answered returns what was answered so far.
func (l *load) answered() map[string][]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	acked := make(map[string][]int)
	for from, ns := range l.acked {
		acked[from] = slices.Clone(ns)
	}
	return acked
}

func (l *load) stop() (map[string]int, map[string][]int) {
	l.cancel()
	l.wg.Wait()
	return l.sent, l.acked
}

func pause(ctx context.Context) {
	t := time.NewTimer(pacing)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
