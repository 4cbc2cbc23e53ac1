package actor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
)

// Functions of the program are also called in goroutines of the runtime: by timers, by events, at
// the ends of actors. The program cannot recover from panics there.

var errThrown = errors.New("thrown")

// thrower is a reference whose function panics for odd numbers.
func thrower(r actor.Ref[int]) actor.Ref[int] {
	return actor.Adapt(r, func(n int) int {
		if n%2 == 1 {
			panic(errThrown)
		}
		return n
	})
}

// heap collects the dead letters of a node.
func heap(node *actor.Node) *[]actor.DeadLetter {
	var letters []actor.DeadLetter
	var mu sync.Mutex
	node.OnDeadLetter(func(l actor.DeadLetter) {
		mu.Lock()
		defer mu.Unlock()
		letters = append(letters, l)
	})
	return &letters
}

// thrown fails the test unless the dead letters are those of these messages, each with the panic as
// its reason.
func thrown(t *testing.T, letters *[]actor.DeadLetter, want ...any) {
	t.Helper()
	var got []any
	for _, l := range *letters {
		var p *actor.PanicError
		if !errors.As(l.Reason, &p) || !errors.Is(l.Reason, errThrown) || len(p.Stack) == 0 {
			t.Errorf("the reason is %v: want the panic", l.Reason)
		}
		got = append(got, l.Message)
	}
	if fmt.Sprintf("%v", got) != fmt.Sprintf("%v", want) {
		t.Errorf("dead letters %v, want %v", got, want)
	}
	*letters = nil
}

// isThrown fails the test unless err is the error that a sender gets for the panic.
func isThrown(t *testing.T, err error) {
	t.Helper()
	var e *mainstem.Error
	if !errors.Is(err, errThrown) || !errors.As(err, &e) || e.Kind != mainstem.KindInternal {
		t.Errorf("Send: %v, want the panic, of kind internal", err)
	}
}

func TestAdaptedReferenceThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		letters := heap(node)
		refs, got := recorders(t, node, 2)
		bad := thrower(refs[0])

		isThrown(t, bad.Send(t.Context(), 1))
		thrown(t, letters, 1)
		timer := bad.SendEvery(time.Second, 3)
		bad.SendAfter(time.Second, 5)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		timer.Stop()
		if len(*letters) != 3 {
			t.Errorf("%d dead letters of timers, want 3: one panic must not end the ticking", len(*letters))
		}
		*letters = nil

		e := event[int](t, node, "", &actor.EventOptions{Replay: 1})
		subscribe(t, e, bad)
		subscribe(t, e, refs[1])
		if n := publish(t, e, 7, 8); n != 2 || e.Len() != 2 {
			t.Errorf("published to %d, %d subscribers: want 2 that stay", n, e.Len())
		}
		thrown(t, letters, 7)

		g, err := actor.GroupOf[int](node, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []actor.Ref[int]{bad, refs[1]} {
			if err := g.Join(r); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range []int{9, 10} {
			if n, err := g.Broadcast(t.Context(), m); n != 2 || err != nil {
				t.Errorf("broadcast to %d, %v", n, err)
			}
		}
		thrown(t, letters, 9)
		synctest.Wait()
		if fmt.Sprint(got) != "[[8 10] [7 8 9 10]]" {
			t.Errorf("got %v", got)
		}
		publish(t, e, 11)
		*letters = nil
		e.Unsubscribe(refs[0])
		isThrown(t, e.Subscribe(bad)) // the replayed value panics
	})
}

// In a spread over many actors the functions run in goroutines of the runtime.
func TestPanicsAmongManySubscribers(t *testing.T) {
	node := open(t)
	e := event[int](t, node, "", nil)
	const n = 1000
	refs, _ := recorders(t, node, n)
	for _, r := range refs {
		subscribe(t, e, thrower(r))
	}
	if got := publish(t, e, 1, 2); got != n || node.DeadLetters() != n {
		t.Errorf("published to %d, %d dead letters, want %d", got, node.DeadLetters(), n)
	}
}

func TestQuestionThroughAnAdaptedReferenceThatPanics(t *testing.T) {
	node := open(t)
	r := spawn(t, node, oracle, nil)
	bad := actor.Adapt(r, func(question) question { panic(errThrown) })
	_, err := ask(t.Context(), bad, 1)
	isThrown(t, err)
	errs := make(chan error, 1)
	send(t, worker(t, node, nil), func(c *actor.Context[job]) error {
		actor.AskThen(c, bad, 0, func(p actor.Reply[int]) question { return question{1, p} }, func(_ int, err error) error {
			errs <- err
			return nil
		})
		return nil
	})
	if err := <-errs; !errors.Is(err, errThrown) {
		t.Errorf("AskThen: %v, want the panic", err)
	}
}

func TestKeyFunctionThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		letters := heap(node)
		key := func(int) string { panic(errThrown) }
		refs, _ := recorders(t, node, 2)
		router, err := actor.NewRouter(actor.ByKey, key, refs...)
		if err != nil {
			t.Fatal(err)
		}
		pool, err := actor.NewPool(node, func() actor.Func[int] { return func(*actor.Context[int], int) error { return nil } },
			&actor.PoolOptions[int]{Workers: 2, Routing: actor.ByKey, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []actor.Ref[int]{router.Ref(), pool.Ref()} {
			isThrown(t, r.Send(t.Context(), 1))
			r.SendAfter(time.Second, 2)
			time.Sleep(time.Minute)
			synctest.Wait()
			thrown(t, letters, 1, 2)
		}
		e := event[int](t, node, "", nil)
		subscribe(t, e, pool.Ref())
		if n := publish(t, e, 3, 4); n != 1 {
			t.Errorf("published to %d, want the pool, which stays", n)
		}
		thrown(t, letters, 3, 4)
	})
}

func TestKeyedThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		letters := heap(node)
		k, err := actor.NewKeyed(node, func(any) actor.Func[int] { panic(errThrown) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Send(t.Context(), "a", 1); !errors.Is(err, errThrown) {
			t.Errorf("Send: %v, want the panic", err)
		}
		k.Ref("a").SendAfter(time.Second, 2)
		time.Sleep(time.Minute)
		synctest.Wait()
		thrown(t, letters, 1, 2)
		k.Ref([]int{1}).SendAfter(time.Second, 3) // a key without a hash
		time.Sleep(time.Minute)
		synctest.Wait()
		var p *actor.PanicError
		if len(*letters) != 1 || !errors.As((*letters)[0].Reason, &p) {
			t.Errorf("dead letters %v, want one for a panic", *letters)
		}
	})
}

// spoiler is an observer and a tracer that panics in each call.
type spoiler struct{}

func (spoiler) Started(actor.AnyRef)                                      { panic(errThrown) }
func (spoiler) Ended(actor.AnyRef, error)                                 { panic(errThrown) }
func (spoiler) Handled(actor.AnyRef, time.Duration, time.Duration, error) { panic(errThrown) }
func (spoiler) Dropped(actor.DeadLetter)                                  { panic(errThrown) }
func (spoiler) Sent(context.Context, actor.AnyRef) any                    { panic(errThrown) }
func (spoiler) Received(context.Context, any, actor.AnyRef) (ctx context.Context, done func(error)) {
	panic(errThrown)
}

func TestObserversThatPanicHarmNoActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		node, err := actor.Open("test", &actor.NodeOptions{
			Observer: spoiler{}, Tracer: spoiler{}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		node.OnDeadLetter(func(actor.DeadLetter) { panic(errThrown) })
		refs, got := recorders(t, node, 1)
		e := event[int](t, node, "", &actor.EventOptions{Active: func(bool) { panic(errThrown) }})
		subscribe(t, e, refs[0])
		send(t, refs[0], 1)
		publish(t, e, 2)
		refs[0].SendAfter(time.Second, 3)
		time.Sleep(time.Minute)
		synctest.Wait()
		refs[0].Stop()
		wait(t, refs[0])
		_ = refs[0].Send(t.Context(), 4)
		if fmt.Sprint(got) != "[[1 2 3]]" {
			t.Errorf("got %v", got)
		}
		if err := node.Close(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(log.String(), "what watches the node panicked") {
			t.Errorf("logged %q", log.String())
		}
	})
}

// nilError is the usual mistake: a nil pointer that is a non-nil error.
type nilError struct{ cause error }

func (e *nilError) Error() string { return e.cause.Error() }
func (e *nilError) Unwrap() error { return e.cause }

type badHandler struct{ slog.Handler }

func (badHandler) Handle(context.Context, slog.Record) error { panic(errThrown) }

func TestReasonThatPanics(t *testing.T) {
	node, err := actor.Open("test", &actor.NodeOptions{Logger: slog.New(badHandler{slog.DiscardHandler})})
	if err != nil {
		t.Fatal(err)
	}
	r := spawn(t, node, func(*actor.Context[question], question) error { return (*nilError)(nil) }, nil)
	_, err = ask(t.Context(), r, 1)
	var p *actor.PanicError
	if !errors.Is(err, actor.ErrNoReply) || !errors.As(err, &p) {
		t.Errorf("ask: %v, want ErrNoReply for a panic", err)
	}
	if reason := wait(t, r); reason != actor.Missing && !errors.As(reason, &p) {
		t.Errorf("reason %v, want a panic", reason)
	}
	stop(t, node)
}

// stopping fails at each message and counts the calls of Stop.
type stopping struct{ stops *int }

func (stopping) Receive(*actor.Context[int], int) error { return errThrown }
func (s stopping) Stop(*actor.Context[int], error)      { *s.stops++ }

// If there is no value for a restart, the one before is not stopped again.
func TestStopIsCalledOnceIfTheRestartPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		made, stops := 0, 0
		child := actor.NewChild("child", func() stopping {
			if made++; made > 1 {
				panic("no more")
			}
			return stopping{&stops}
		}, nil)
		sup, err := actor.Supervise(node, nil, child)
		if err != nil {
			t.Fatal(err)
		}
		r, err := actor.ChildRef[int](t.Context(), sup, "child")
		if err != nil {
			t.Fatal(err)
		}
		send(t, r, 1)
		synctest.Wait()
		if made < 2 || stops != 1 {
			t.Errorf("%d values made, %d calls of Stop: want 2 or more, and 1", made, stops)
		}
	})
}
