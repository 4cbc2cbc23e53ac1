package topic

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func add(t *testing.T, w *Waiter, tp *Topic, partitions ...int32) {
	t.Helper()
	for _, p := range partitions {
		if err := w.Add(t.Context(), tp, p); err != nil {
			t.Fatal(err)
		}
	}
}

// woken waits until w is woken and returns the names of the partitions that have grown.
func woken(t *testing.T, w *Waiter) map[string]bool {
	t.Helper()
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, tp := range w.Take() {
		out[fmt.Sprintf("%s/%d", tp.Topic.Name(), tp.Partition)] = true
	}
	return out
}

// A waiter wakes for its partitions, of several topics, and not for others.
func TestWaiter(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c, other := open(t, log, nil), open(t, log, nil)
		x, y := create(t, c, "x", Spec{Partitions: 3}), create(t, c, "y", Spec{})
		w := c.NewWaiter()
		defer w.Close()
		add(t, w, x, 0, 2, 2)
		add(t, w, y, 0)
		mustAppend(t, x, 1, batch(0, rec{value: "not waited for"}))
		there, err := other.Topic(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, there, 2, batch(0, rec{value: "from another catalog"}))
		if got := woken(t, w); len(got) != 1 || !got["x/2"] {
			t.Errorf("woken by %v", got)
		}
		b := mainstem.NewBatch()
		y.PublishTo(b, Record{Value: []byte("in a batch")})
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if got := woken(t, w); len(got) != 1 || !got["y/0"] {
			t.Errorf("woken by %v", got)
		}
		w.Remove(x, 2)
		mustAppend(t, x, 2, batch(0, rec{value: "removed"}))
		mustAppend(t, x, 0, batch(0, rec{value: "still there"}))
		if got := woken(t, w); len(got) != 1 || !got["x/0"] {
			t.Errorf("woken by %v", got)
		}
		if err := c.Delete(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if got := woken(t, w); !got["x/0"] {
			t.Errorf("the deletion of a topic wakes %v", got)
		}
		if err := w.Add(t.Context(), x, 0); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("waiting for a deleted topic: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Wait(ctx); !errors.Is(err, mainstem.ErrCanceled) {
			t.Errorf("cancelled: %v", err)
		}
		w.Close()
		w.Close()
		if err := w.Add(t.Context(), y, 0); !errors.Is(err, mainstem.ErrClosed) {
			t.Errorf("a closed waiter: %v", err)
		}
	})
}

// Each of many waiters, which read only when they are woken, sees every record. One follower serves
// all of them, and ends when there is no waiter any more.
func TestManyWaiters(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		const waiters, records = 60, 20
		tp := create(t, c, "x", Spec{Partitions: 4})
		ended := make(chan error, 10)
		tp.hub.Ended = func(err error) { ended <- err }
		var wg sync.WaitGroup
		ready := make(chan struct{}, waiters)
		for i := range waiters {
			wg.Go(func() {
				w := c.NewWaiter()
				defer w.Close()
				p := int32(i % 4)
				if err := w.Add(t.Context(), tp, p); err != nil {
					t.Error(err)
				}
				ready <- struct{}{}
				for next := int64(0); next < records; {
					chunk, err := tp.Read(t.Context(), p, next, nil)
					if err != nil {
						t.Error(err)
						return
					}
					if next = chunk.Next; next == records {
						return
					}
					if err := w.Wait(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for range waiters {
			<-ready
		}
		for range records {
			for p := range int32(4) {
				mustAppend(t, tp, p, batch(0, rec{value: "v"}))
			}
		}
		wg.Wait()
		if len(ended) > 0 {
			t.Error("no follower runs")
		}
		tp.hub.Linger = time.Millisecond
		w := c.NewWaiter()
		defer w.Close()
		add(t, w, tp, 0)
		w.Remove(tp, 0)
		testkit.Eventually(t, "the follower ends", func() bool { return len(ended) > 0 })
		if err := <-ended; err != nil {
			t.Errorf("the follower ends with %v", err)
		}
		add(t, w, tp, 0) // and begins again
		mustAppend(t, tp, 0, batch(0, rec{value: "v"}))
		woken(t, w)
	})
}

// Thousands of waiters for a thousand partitions need one goroutine. A record wakes those of its
// partition only.
func TestWaitersCostNoGoroutines(t *testing.T) {
	c := open(t, testengines.Memory(t), nil)
	tp := create(t, c, "x", Spec{Partitions: 1000})
	before := runtime.NumGoroutine()
	waiters := make([]*Waiter, 3000)
	for i := range waiters {
		waiters[i] = c.NewWaiter()
		defer waiters[i].Close()
		for k := range 5 {
			add(t, waiters[i], tp, int32((i+200*k)%1000))
		}
	}
	if n := runtime.NumGoroutine() - before; n > 4 {
		t.Errorf("%d waiters take %d goroutines", len(waiters), n)
	}
	mustAppend(t, tp, 7, batch(0, rec{value: "v"}))
	for i, w := range waiters {
		if i%200 == 7 {
			if got := woken(t, w); len(got) != 1 || !got["x/7"] {
				t.Errorf("waiter %d is woken by %v", i, got)
			}
		} else if got := w.Take(); len(got) > 0 {
			t.Errorf("waiter %d is woken by %v", i, got)
		}
	}
}

// A handle learns of the changes of other catalogs from the follower.
func TestFollowerKeepsHandleCurrent(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c, other := open(t, log, nil), open(t, log, nil)
		tp := create(t, c, "x", Spec{Partitions: 1})
		w := c.NewWaiter()
		defer w.Close()
		add(t, w, tp, 0)
		if err := other.AddPartitions(t.Context(), "x", 3); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "partitions are added", func() bool { return tp.Partitions() == 3 })
		if err := other.Delete(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		create(t, other, "x", Spec{})
		testkit.Eventually(t, "the topic is gone", func() bool { return errors.Is(tp.usable("test"), mainstem.ErrNotFound) })
	})
}

// Upkeep retires the handles of topics that another catalog has deleted, and wakes their waiters.
func TestUpkeepRetiresDeletedTopics(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c, other := open(t, log, nil), open(t, log, nil)
		tp := create(t, c, "x", Spec{})
		create(t, c, "y", Spec{})
		w := c.NewWaiter()
		defer w.Close()
		add(t, w, tp, 0)
		if err := other.Delete(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if err := c.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := tp.usable("test"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("the handle: %v, want NotFound", err)
		}
		if len(w.C()) == 0 {
			t.Error("the waiter is not woken")
		}
		if got := c.cachedNames(); !slices.Equal(got, []string{"y"}) {
			t.Errorf("the catalog has handles of %v, want y", got)
		}
	})
}

func TestWaitEndsWithTheCatalog(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		tp := create(t, c, "x", Spec{})
		w := c.NewWaiter()
		defer w.Close()
		add(t, w, tp, 0)
		done := make(chan error)
		go func() {
			var err error
			for err == nil {
				err = w.Wait(t.Context())
			}
			done <- err
		}()
		c.Close()
		if err := <-done; !errors.Is(err, mainstem.ErrClosed) {
			t.Error(err)
		}
	})
}

// A consumer that waits gets an error when the log is closed.
func TestLogClosedUnderConsumer(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		tp := create(t, c, "x", Spec{})
		mustAppend(t, tp, 0, batch(0, rec{value: "v"}))
		got := make(chan struct{})
		done := make(chan error)
		go func() {
			var last error
			for _, err := range tp.Consume(t.Context(), &ConsumeOptions{Follow: true}) {
				if last = err; err == nil {
					close(got)
				}
			}
			done <- last
		}()
		<-got
		log.Close()
		if err := <-done; !errors.Is(err, mainstem.ErrClosed) {
			t.Error(err)
		}
	})
}
