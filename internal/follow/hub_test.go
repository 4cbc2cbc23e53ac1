package follow

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/wake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errOwner = errors.New("the owner is closed")

// owner owns a hub whose waiters are channels that wait for keys.
type owner struct {
	Hub[string, chan<- struct{}]
	stop    context.CancelFunc
	wg      sync.WaitGroup
	started atomic.Int64
	ended   chan error // receives the errors that followers end with
	mu      struct {
		sync.Mutex
		closed bool
	}
}

func newOwner(t *testing.T, log mainstem.Log) *owner {
	t.Helper()
	o := &owner{ended: make(chan error, 1000)}
	o.Log, o.Space, o.Linger = log, "s", time.Hour
	o.Ctx, o.stop = context.WithCancel(t.Context())
	o.Start = func(follow func()) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.mu.closed {
			return errOwner
		}
		o.started.Add(1)
		o.wg.Go(follow)
		return nil
	}
	o.Record = func(rec *mainstem.Record) { o.Wake(string(rec.Key), wake.Signal) }
	o.Signal = func(_ string, c chan<- struct{}) { wake.Signal(c) }
	o.Ended = func(err error) { o.ended <- err }
	t.Cleanup(o.close)
	return o
}

func (o *owner) close() {
	o.mu.Lock()
	o.mu.closed = true
	o.mu.Unlock()
	o.stop()
	o.wg.Wait()
}

func (o *owner) add(t *testing.T, keys ...string) chan struct{} {
	t.Helper()
	c := make(chan struct{}, 1)
	if ok, err := o.Add(t.Context(), c, keys); !ok || err != nil {
		t.Fatal(ok, err)
	}
	return c
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case x := <-c:
		return x
	case <-time.After(testkit.Patience):
		t.Fatal("nothing is received")
		panic("unreachable")
	}
}

func putKey(t *testing.T, log mainstem.Log, key string) {
	t.Helper()
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	b.Put("s", []byte(key), nil)
	if _, err := log.Commit(t.Context(), b); err != nil {
		t.Error(err)
	}
}

// One follower serves all waiters. It ends when there was none for a while, but not when
// one has come back, and another begins with the next waiter.
func TestHubFollowsWhileThereAreWaiters(t *testing.T) {
	log := openLog(t)
	putKey(t, log, "before")
	o := newOwner(t, log)
	a, ab := o.add(t, "a"), o.add(t, "a", "b")
	putKey(t, log, "b")
	receive(t, ab)
	if len(a) > 0 {
		t.Error("woken by another key")
	}
	putKey(t, log, "a")
	receive(t, a)
	receive(t, ab)
	o.Remove(ab, []string{"a", "b"})
	o.Linger = time.Millisecond // from the last waiter on
	o.Remove(a, []string{"a"})
	if err := receive(t, o.ended); err != nil {
		t.Errorf("nobody waits: ended with %v", err)
	}
	if n := o.started.Load(); n != 1 {
		t.Errorf("%d followers", n)
	}
	o.Linger = time.Hour
	a = o.add(t, "a")
	o.Remove(a, []string{"a"})
	a = o.add(t, "a")
	o.quit() // as if the time were over
	putKey(t, log, "a")
	receive(t, a)
	if n := o.started.Load(); n != 2 || len(o.ended) > 0 {
		t.Errorf("%d followers, of which the last has ended: %t; a waiter has come back", n, len(o.ended) > 0)
	}
}

// No waiter misses a record, while followers end and begin all the time.
func TestHubMissesNothing(t *testing.T) {
	log := openLog(t)
	o := newOwner(t, log)
	o.Linger = time.Microsecond
	o.Ended = func(error) {}
	var wg sync.WaitGroup
	for _, key := range []string{"a", "b", "c"} {
		var committed atomic.Int64
		const n = 200
		wg.Go(func() {
			for range n {
				putKey(t, log, key)
				committed.Add(1)
			}
		})
		wg.Go(func() {
			for committed.Load() < n {
				c := make(chan struct{}, 1)
				if ok, err := o.Add(t.Context(), c, []string{key}); !ok || err != nil {
					t.Error(ok, err)
					return
				}
				if rec, err := log.Get(t.Context(), "s", []byte(key)); err != nil || rec.Version < n {
					<-c
				}
				o.Remove(c, []string{key})
			}
		})
	}
	wg.Wait()
}

// Who waits when the follower has to end is woken.
func TestHubEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(o *owner)
		want error // that the follower ends with
		err  error // of another waiter
	}{
		{"retired", func(o *owner) { o.Retire(); o.Retire() }, nil, nil},
		{"owner closed", func(o *owner) { o.close() }, context.Canceled, errOwner},
		{"log closed", func(o *owner) { _ = o.Log.Close() }, mainstem.ErrClosed, mainstem.ErrClosed},
		{"last of the only follower", func(o *owner) { o.Once = true; _ = o.Log.Close() }, mainstem.ErrClosed, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOwner(t, openLog(t))
			w := o.add(t, "a")
			c.end(o)
			receive(t, w)
			if err := receive(t, o.ended); !errors.Is(err, c.want) {
				t.Errorf("ended with %v, want %v", err, c.want)
			}
			if ok, err := o.Add(context.Background(), w, []string{"a"}); ok || !errors.Is(err, c.err) {
				t.Errorf("a waiter after the end: %t, %v; want false, %v", ok, err, c.err)
			}
			o.Remove(w, []string{"a"})
			o.quit()
			if len(o.ended) > 0 {
				t.Error("ended twice")
			}
		})
	}
}

// A hub that was retired before anybody waited takes no waiter, and has no follower.
func TestHubRetiredFirst(t *testing.T) {
	o := newOwner(t, openLog(t))
	o.Retire()
	if ok, err := o.Add(t.Context(), make(chan struct{}), nil); ok || err != nil {
		t.Error(ok, err)
	}
	if n := o.started.Load(); n != 0 || len(o.ended) > 0 {
		t.Errorf("%d followers, %d ends", n, len(o.ended))
	}
}
