package lease_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 10 * time.Second

// network is the network between one node and the log. It can be cut, or hold calls back, so that
// they arrive long after they were made.
type network struct {
	mainstem.Log
	mu     sync.Mutex
	open   chan struct{} // closed while the network works
	failed chan struct{} // closed while it is cut: calls fail
}

func newNetwork(log mainstem.Log) *network {
	n := &network{Log: log, open: make(chan struct{}), failed: make(chan struct{})}
	close(n.open)
	return n
}

// cut makes calls fail, freeze makes them wait, heal lets all pass, also those that wait.
func (n *network) cut()    { n.set(make(chan struct{}), true) }
func (n *network) freeze() { n.set(make(chan struct{}), false) }
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = make(chan struct{})
	select {
	case <-n.open:
	default:
		close(n.open)
	}
}

func (n *network) set(open chan struct{}, failing bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.open:
		n.open = open
	default: // calls that wait already go on waiting
	}
	n.failed = make(chan struct{})
	if failing {
		close(n.failed)
	}
}

var errCut = &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "network", Err: errors.New("cut"), Outcome: mainstem.NotWritten}

func (n *network) pass(ctx context.Context) error {
	n.mu.Lock()
	open, failed := n.open, n.failed
	n.mu.Unlock()
	select {
	case <-open:
		return nil
	default:
	}
	select {
	case <-open:
		return nil
	case <-failed:
		return errCut
	case <-ctx.Done():
		return &mainstem.Error{Kind: mainstem.KindCanceled, Op: "network", Err: ctx.Err(), Outcome: mainstem.Unknown}
	}
}

// Commit is carried out even if its caller gives up: then the answer is lost.
func (n *network) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	n.mu.Lock()
	open := n.open
	n.mu.Unlock()
	select {
	case <-open:
		return n.Log.Commit(ctx, b)
	default:
	}
	type answer struct {
		r   mainstem.Receipt
		err error
	}
	done := make(chan answer, 1)
	go func() {
		err := n.pass(context.WithoutCancel(ctx))
		if err != nil {
			done <- answer{err: err}
			return
		}
		r, err := n.Log.Commit(context.WithoutCancel(ctx), b)
		done <- answer{r, err}
	}()
	select {
	case a := <-done:
		return a.r, a.err
	case <-ctx.Done():
		return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindCanceled, Op: "commit", Err: ctx.Err(), Outcome: mainstem.Unknown}
	}
}

func (n *network) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	if err := n.pass(ctx); err != nil {
		return mainstem.Record{}, err
	}
	return n.Log.Get(ctx, space, key)
}

func (n *network) Head(ctx context.Context) (mainstem.Position, error) {
	if err := n.pass(ctx); err != nil {
		return 0, err
	}
	return n.Log.Head(ctx)
}

func (n *network) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		for r, err := range n.Log.Feed(ctx, f) {
			if perr := n.pass(ctx); perr != nil {
				yield(mainstem.Record{}, perr)
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// join makes a member, in virtual time.
func join(t testing.TB, log mainstem.Log, name string, start uint64) *lease.Keeper {
	t.Helper()
	return joinFor(t, log, name, start, ttl)
}

// joinForGood makes a member whose session does not end before it is closed, in real time.
func joinForGood(t testing.TB, log mainstem.Log, name string, start uint64) *lease.Keeper {
	t.Helper()
	return joinFor(t, log, name, start, lease.MaxTTL)
}

func joinFor(t testing.TB, log mainstem.Log, name string, start uint64, ttl time.Duration) *lease.Keeper {
	t.Helper()
	k, err := lease.Open(t.Context(), log, lease.Member{Name: name, Start: start, Address: fmt.Sprintf("%s:%d", name, start)}, &lease.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leave(t, k) })
	return k
}

func leave(t testing.TB, k *lease.Keeper) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := k.Close(ctx); err != nil {
		t.Error(err)
	}
}

// await waits until ok returns true, which it calls again after each change that k sees.
func await(t testing.TB, k *lease.Keeper, what string, ok func() bool) {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		changed := k.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-patience:
			t.Fatalf("waited without success for: %s", what)
		}
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }
