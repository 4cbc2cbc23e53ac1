package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func event[E any](t testing.TB, s actor.Spawner, name string, o *actor.EventOptions) *actor.Event[E] {
	t.Helper()
	e, err := actor.NewEvent[E](s, name, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func subscribe[E any](t testing.TB, e *actor.Event[E], r actor.Ref[E]) {
	t.Helper()
	if err := e.Subscribe(r); err != nil {
		t.Fatal(err)
	}
}

func publish[E any](t testing.TB, e *actor.Event[E], vs ...E) (n int) {
	t.Helper()
	for _, v := range vs {
		var err error
		if n, err = e.Publish(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func TestEventReplaysAndKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		var active []bool
		e := event[int](t, node, "numbers", &actor.EventOptions{Replay: 3, Active: func(on bool) { active = append(active, on) }})
		publish(t, e, 1, 2, 3, 4, 5)
		var got []int
		r := spawn(t, node, func(_ *actor.Context[int], m int) error { got = append(got, m); return nil }, nil)
		subscribe(t, e, r)
		subscribe(t, e, r) // once is enough
		found, err := actor.LookupEvent[int](node, "numbers")
		if err != nil || found != e {
			t.Fatalf("LookupEvent: %v, %v", found, err)
		}
		if n := publish(t, e, 6, 7); n != 1 {
			t.Errorf("published to %d, want 1", n)
		}
		synctest.Wait()
		e.Unsubscribe(r)
		publish(t, e, 8)
		subscribe(t, e, r)
		synctest.Wait()
		if want := []int{3, 4, 5, 6, 7, 6, 7, 8}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		r.Stop()
		wait(t, r)
		synctest.Wait()
		if n := publish(t, e, 9); n != 0 || node.DeadLetters() != 0 || e.Len() != 0 {
			t.Errorf("published to %d, %d dead letters: want a stopped subscriber forgotten", n, node.DeadLetters())
		}
		if want := []bool{true, false, true, false}; !slices.Equal(active, want) {
			t.Errorf("active %v, want %v", active, want)
		}
	})
}

func TestEventEndsWithItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		owner := worker(t, node, nil)
		var e *actor.Event[string]
		noticed := false
		send(t, owner, func(c *actor.Context[job]) error {
			e = event[string](t, c, "news", &actor.EventOptions{Active: func(bool) { noticed = true }})
			return nil
		})
		synctest.Wait()
		r := worker(t, node, nil)
		adapted := actor.Adapt(r, func(s string) job {
			return func(*actor.Context[job]) error { return errors.New(s) }
		})
		subscribe(t, e, adapted)
		if _, err := actor.NewEvent[int](node, "news", nil); !errors.Is(err, mainstem.ErrExists) {
			t.Errorf("second event: %v, want Exists", err)
		}
		if _, err := actor.LookupEvent[int](node, "news"); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("lookup of another type: %v, want Invalid", err)
		}
		publish(t, e, "extra")
		if reason := wait(t, r); reason.Error() != "extra" && reason != actor.Missing {
			t.Errorf("reason %v, want what was published", reason)
		}
		synctest.Wait()
		owner.Stop()
		wait(t, owner)
		synctest.Wait()
		if _, err := e.Publish(t.Context(), ""); !errors.Is(err, actor.ErrStopped) || !noticed {
			t.Errorf("Publish: %v, want ErrStopped; noticed: %t", err, noticed)
		}
		if err := e.Subscribe(adapted); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("Subscribe: %v, want ErrStopped", err)
		}
		if _, err := actor.LookupEvent[string](node, "news"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("LookupEvent: %v, want NotFound", err)
		}
	})
}

// Values reach thousands of subscribers, each in order, while others publish, and
// some subscribers stop.
func TestEventWithManySubscribers(t *testing.T) {
	node := open(t)
	type value struct{ from, n int }
	e := event[value](t, node, "", nil)
	const subscribers, publishers, values = 3000, 3, 20
	var handled atomic.Int64
	var ending actor.Ref[value]
	for i := range subscribers {
		var last [publishers]int
		r := spawn(t, node, func(c *actor.Context[value], m value) error {
			if m.n != last[m.from]+1 {
				t.Errorf("got %v after %d", m, last[m.from])
			}
			last[m.from] = m.n
			if i == 77 && m.n == 5 {
				c.Stop(nil)
			}
			handled.Add(1)
			return nil
		}, nil)
		subscribe(t, e, r)
		if i == 77 {
			ending = r
		}
	}
	var wg sync.WaitGroup
	for from := range publishers {
		wg.Go(func() {
			for n := 1; n <= values; n++ {
				if _, err := e.Publish(context.Background(), value{from, n}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wait(t, ending)
	if n, err := e.Publish(context.Background(), value{0, values + 1}); n != subscribers-1 || err != nil {
		t.Errorf("Publish after one has ended: %d, %v", n, err)
	}
	stop(t, node)
	const all = publishers*values + 1
	if n := handled.Load(); n < (subscribers-1)*all || n >= subscribers*all {
		t.Errorf("%d values handled", n)
	}
	if n := e.Len(); n != subscribers-1 {
		t.Errorf("%d subscribers left", n)
	}
}

// Subscribers that block hold up neither the publisher nor one another.
func TestBlockedSubscribersHoldUpNobody(t *testing.T) {
	for _, n := range []int{20, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := open(t)
				e := event[int](t, node, "", nil)
				let := make(chan struct{})
				in := 0
				var mu sync.Mutex
				for range n {
					subscribe(t, e, spawn(t, node, func(*actor.Context[int], int) error {
						mu.Lock()
						in++
						mu.Unlock()
						<-let
						return nil
					}, nil))
				}
				publish(t, e, 1, 2)
				time.Sleep(time.Second)
				mu.Lock()
				if in != n {
					t.Errorf("%d of %d are in Receive", in, n)
				}
				mu.Unlock()
				close(let)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if in != 2*n {
					t.Errorf("%d values handled, want %d", in, 2*n)
				}
			})
		})
	}
}

// A publisher that waits for room in mailboxes holds up no subscriber, not even another one whose
// mailbox is full.
func TestFullMailboxHoldsUpNoOtherSubscriber(t *testing.T) {
	for _, n := range []int{20, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := open(t)
				e := event[int](t, node, "", nil)
				let := []chan struct{}{make(chan struct{}), make(chan struct{})}
				var handled [2]atomic.Int64 // by the actors with limits
				var others atomic.Int64
				for i := range n {
					if i != 5 && i != 9 {
						subscribe(t, e, spawn(t, node, func(*actor.Context[int], int) error { others.Add(1); return nil }, nil))
						continue
					}
					which := i / 9
					r := spawn(t, node, func(*actor.Context[int], int) error {
						<-let[which]
						handled[which].Add(1)
						return nil
					}, &actor.Options{Mailbox: 1, Overflow: actor.Block})
					send(t, r, 0)
					synctest.Wait()
					send(t, r, 0)
					subscribe(t, e, r)
				}
				var returned atomic.Bool
				go func() { publish(t, e, 1); returned.Store(true) }()
				synctest.Wait()
				if got := others.Load(); got != int64(n-2) || returned.Load() {
					t.Errorf("%d of %d idle subscribers have handled the value; Publish has returned: %v", got, n-2, returned.Load())
				}
				close(let[1])
				synctest.Wait()
				if got := handled[1].Load(); got != 3 || returned.Load() {
					t.Errorf("the subscriber with room has handled %d messages, want 3; Publish has returned: %v", got, returned.Load())
				}
				close(let[0])
				synctest.Wait()
				if got := handled[0].Load(); got != 3 || !returned.Load() {
					t.Errorf("the last subscriber has handled %d messages, want 3; Publish has returned: %v", got, returned.Load())
				}
			})
		})
	}
}

// The functions that a replay calls may ask the event and end subscriptions.
func TestReplayCallsFunctionsWithoutALock(t *testing.T) {
	node := open(t)
	e := event[int](t, node, "", &actor.EventOptions{Replay: 2})
	publish(t, e, 1, 2)
	other := spawn(t, node, func(*actor.Context[string], string) error { return nil }, nil)
	asked := 0
	use := func() { asked++; e.Unsubscribe(other); e.Len() }
	defer node.OnDeadLetter(func(actor.DeadLetter) { use() })()
	let := make(chan struct{})
	full := spawn(t, node, func(*actor.Context[int], int) error { <-let; return nil }, &actor.Options{Mailbox: 1})
	defer close(let)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.Subscribe(actor.Adapt(other, func(int) string { use(); return "" })); err != nil {
			t.Error(err)
		}
		_ = full.Send(t.Context(), 0)
		_ = full.Send(t.Context(), 0) // at least one of the next messages is a dead letter
		if err := e.Subscribe(full); !errors.Is(err, mainstem.ErrUnavailable) {
			t.Errorf("the last values do not fit into the mailbox: %v, want Unavailable", err)
		}
	}()
	select {
	case <-done:
		if asked < 3 {
			t.Errorf("the functions were called %d times, want 3 or more", asked)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("Subscribe does not return")
	}
}

// An actor that subscribes while values are published gets the last ones and all that follow, in
// order.
func TestReplayAmongPublishers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		e := event[int](t, node, "", &actor.EventOptions{Replay: 3})
		refs, got := recorders(t, node, 30)
		publish(t, e, 0, 1, 2)
		var done sync.WaitGroup
		done.Go(func() {
			for v := 3; v < 500; v++ {
				publish(t, e, v)
			}
		})
		for _, r := range refs {
			done.Go(func() { subscribe(t, e, r) })
		}
		done.Wait()
		synctest.Wait()
		for _, values := range got {
			first := 500 - len(values)
			for i, v := range values {
				if v != first+i {
					t.Fatalf("value %d of a subscriber is %d, want %d: %v", i, v, first+i, values)
				}
			}
			if len(values) < 3 {
				t.Errorf("a subscriber got %v, want the last 3 values or more", values)
			}
		}
	})
}

// A subscriber may change subscriptions, its own too, while a call of Publish waits for its mailbox.
func TestSubscriberChangesSubscriptionsInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		var active []bool
		var e *actor.Event[int]
		e = event[int](t, node, "", &actor.EventOptions{Replay: 2, Active: func(on bool) { active = append(active, on && e.Len() > 0) }})
		others, got := recorders(t, node, 1)
		let := make(chan struct{})
		seen := 0
		r := spawn(t, node, func(c *actor.Context[int], m int) error {
			if seen++; seen == 1 {
				<-let
				subscribe(t, e, others[0])
				e.Unsubscribe(c.Self())
			}
			return nil
		}, &actor.Options{Mailbox: 1, Overflow: actor.Block})
		subscribe(t, e, r)
		published := make(chan struct{})
		go func() {
			defer close(published)
			for v := range 4 {
				_, _ = e.Publish(context.Background(), v)
			}
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.Publish(ctx, 9); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mainstem.ErrCanceled) {
			t.Errorf("Publish behind another: %v, want Canceled", err)
		}
		close(let) // value 2 waits for the mailbox of r, which holds 1
		<-published
		synctest.Wait()
		if seen != 3 || fmt.Sprint(got) != "[[1 2 3]]" {
			t.Errorf("r has seen %d values, want 3; the other %v, want 1 2 3", seen, got)
		}
		e.Unsubscribe(others[0])
		if want := []bool{true, false}; !slices.Equal(active, want) {
			t.Errorf("active %v, want %v", active, want)
		}
	})
}
