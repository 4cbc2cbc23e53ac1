package link_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = testkit.Patience

// noWait is the context of Sends that do not wait for credit.
var noWait context.Context

var secret = []byte("a secret of the tests, long enough")

// hears is a handler that records its calls.
type hears struct {
	mu          sync.Mutex
	bodies      [][]byte
	lanes       []uint32
	up          []*link.Peer
	down        []error
	left        []string // the peers of down
	undelivered [][]byte
	message     func(p *link.Peer, lane uint32, body []byte) // instead of noting, if set
	count       atomic.Int64
}

func (h *hears) Message(p *link.Peer, lane uint32, body []byte) {
	if h.message != nil {
		h.message(p, lane, body)
		h.count.Add(1)
		return
	}
	h.mu.Lock()
	h.bodies = append(h.bodies, append([]byte{}, body...))
	h.lanes = append(h.lanes, lane)
	h.mu.Unlock()
	h.count.Add(1)
}

func (h *hears) Up(p *link.Peer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.up = append(h.up, p)
}

func (h *hears) Down(p *link.Peer, reason error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down, h.left = append(h.down, reason), append(h.left, p.Name())
}

func (h *hears) Undelivered(_ *link.Peer, body []byte, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.undelivered = append(h.undelivered, append([]byte{}, body...))
}

func (h *hears) ups() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.up)
}

func (h *hears) downs() []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]error(nil), h.down...)
}

// downsOf returns why the sessions of one peer ended.
func (h *hears) downsOf(name string) (reasons []error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, peer := range h.left {
		if peer == name {
			reasons = append(reasons, h.down[i])
		}
	}
	return reasons
}

// plain returns options for a node without TLS.
func plain(name string) *link.Options {
	return &link.Options{
		Name: name, Plain: true, Secret: secret, Listen: "127.0.0.1:0",
		MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond,
	}
}

// open opens an endpoint until the test ends.
func open(t testing.TB, o *link.Options, h link.Handler) *link.Endpoint {
	t.Helper()
	e, err := link.Open(o, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, e) })
	return e
}

// shut closes an endpoint without waiting for its peers.
func shut(t testing.TB, e *link.Endpoint) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = e.Close(ctx)
}

// at resolves names of endpoints.
func at(es ...*link.Endpoint) func(context.Context, string) (string, error) {
	return func(_ context.Context, name string) (string, error) {
		for _, e := range es {
			if e.Name() == name {
				return e.Addr().String(), nil
			}
		}
		return "", fmt.Errorf("no node %s", name)
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func peer(t testing.TB, e *link.Endpoint, name string) *link.Peer {
	t.Helper()
	p, err := e.Peer(within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// bytesOf returns an appendBody for some bytes.
func bytesOf(b []byte) func([]byte) ([]byte, error) {
	return func(dst []byte) ([]byte, error) { return append(dst, b...), nil }
}

func number(n uint64) func([]byte) ([]byte, error) {
	return func(dst []byte) ([]byte, error) { return binary.BigEndian.AppendUint64(dst, n), nil }
}

func TestMessagesArriveInOrder(t *testing.T) {
	var heard hears
	b := open(t, plain("b"), &heard)
	o := plain("a")
	o.Resolve = at(b)
	a := open(t, o, &hears{})
	p := peer(t, a, "b")
	const n = 10_000
	for i := range uint64(n) {
		if err := p.Send(within(t), 7, link.Mode(i%2), number(i)); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "all messages", func() bool { return heard.count.Load() == n })
	for i, body := range heard.bodies {
		if got := binary.BigEndian.Uint64(body); got != uint64(i) || heard.lanes[i] != 7 {
			t.Fatalf("message %d is %d on lane %d", i, got, heard.lanes[i])
		}
	}
	if s := p.Stats(); s.SentMessages != n || s.Connections < 1 {
		t.Errorf("the sender counts %+v", s)
	}
}

// TestCloseEndsDials checks that who waits for a dial sees that the endpoint was closed.
func TestCloseEndsDials(t *testing.T) {
	o := plain("a")
	resolving := make(chan struct{})
	o.Resolve = func(ctx context.Context, _ string) (string, error) {
		close(resolving)
		<-ctx.Done()
		return "", ctx.Err()
	}
	e := open(t, o, &hears{})
	done := make(chan error, 1)
	go func() {
		_, err := e.Peer(within(t), "b")
		done <- err
	}()
	<-resolving
	shut(t, e)
	if err := <-done; !errors.Is(err, mainstem.ErrClosed) || !errors.Is(err, link.ErrClosed) {
		t.Errorf("Peer while the endpoint is closed: %v, want Closed", err)
	}
}
