package actor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem/actor"
)

// record is an observer that records its calls.
type record struct {
	actor.NoObserver
	mu    sync.Mutex
	notes []string
}

func (r *record) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *record) Started(a actor.AnyRef)             { r.note("started %s", a) }
func (r *record) Ended(a actor.AnyRef, reason error) { r.note("ended %s %v", a, reason) }
func (r *record) Dropped(l actor.DeadLetter)         { r.note("dropped %s", l.To) }
func (r *record) Handled(a actor.AnyRef, waited, took time.Duration, reason error) {
	r.note("handled %s %s %s %v", a, waited, took, reason)
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r record
		var log strings.Builder
		node, err := actor.Open("test", &actor.NodeOptions{Observer: &r, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		a := worker(t, node, &actor.Options{Name: "a"})
		nap := func(*actor.Context[job]) error { time.Sleep(time.Second); return nil }
		send(t, a, nap, nap, func(*actor.Context[job]) error { panic("bad") }, nap)
		wait(t, a)
		if err := node.Close(); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"started test/a", "handled test/a 0s 1s <nil>", "handled test/a 1s 1s <nil>",
			"handled test/a 2s 0s panic: bad", "ended test/a panic: bad", "dropped test/a",
		}
		if !slices.Equal(r.notes, want) {
			t.Errorf("got %q, want %q", r.notes, want)
		}
		if s := log.String(); !strings.Contains(s, "actor failed") || !strings.Contains(s, "actor=test/a") || !strings.Contains(s, "bad") {
			t.Errorf("logged %q", s)
		}
	})
}

type traceKey struct{}

// tracer carries a path along with messages.
type tracer struct {
	mu   sync.Mutex
	done []error
}

func (*tracer) Sent(ctx context.Context, to actor.AnyRef) any {
	path, _ := ctx.Value(traceKey{}).(string)
	return path + ">" + to.Address().Name
}

func (tr *tracer) Received(life context.Context, carried any, _ actor.AnyRef) (context.Context, func(error)) {
	return context.WithValue(life, traceKey{}, carried), func(err error) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.done = append(tr.done, err)
	}
}

func TestTracesRideOnMessages(t *testing.T) {
	tr := &tracer{}
	node, err := actor.Open("test", &actor.NodeOptions{Tracer: tr})
	if err != nil {
		t.Fatal(err)
	}
	c := spawn(t, node, func(c *actor.Context[question], q question) error {
		_ = q.reply.Send(len(c.Value(traceKey{}).(string)))
		return errors.New(c.Value(traceKey{}).(string))
	}, &actor.Options{Name: "c"})
	b := worker(t, node, &actor.Options{Name: "b"})
	lengths := make(chan int, 1)
	send(t, b, func(x *actor.Context[job]) error {
		n, err := ask(x, c, 1)
		lengths <- n
		return err
	})
	if n := <-lengths; n != len(">b>c") {
		t.Errorf("the trace at c has %d bytes", n)
	}
	stop(t, node)
	if len(tr.done) != 2 || fmt.Sprint(tr.done[0], tr.done[1]) != ">b>c <nil>" && fmt.Sprint(tr.done[1], tr.done[0]) != ">b>c <nil>" {
		t.Errorf("done with %v", tr.done)
	}
}

type showman struct{ player }

func (*showman) Inspect() map[string]string { return map[string]string{"mood": "good"} }

func TestInspectAndWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		st := newStage()
		s := supervise(t, node, &actor.SupervisorOptions{Name: "top"},
			actor.NewChild("x", func() *showman { return &showman{player{name: "x", stage: st}} }, &actor.ChildOptions{Options: actor.Options{Name: "x"}}))
		x := childRef(t, s, "x")
		send(t, x, func(c *actor.Context[job]) error { worker(t, c, &actor.Options{Name: "leaf"}); return c.Register("y") })
		synctest.Wait()
		var tree []string
		for depth, i := range node.Walk() {
			tree = append(tree, fmt.Sprint(depth, " ", i.Address, " ", i.State, " ", i.Children))
		}
		if want := []string{"0 test/top idle 1", "1 test/x idle 1", "2 test/leaf idle 0"}; !slices.Equal(tree, want) {
			t.Errorf("tree %q, want %q", tree, want)
		}
		i, err := node.Inspect(x.Address())
		if err != nil || i.Parent != s.Ref().Address() || !slices.Equal(i.Names, []string{"x", "y"}) ||
			i.Behaviour != "*actor_test.showman" || i.Messages != "actor_test.job" || i.Handled != 1 || i.Incarnation != 1 {
			t.Errorf("Inspect: %+v, %v", i, err)
		}
		state, err := node.InspectState(t.Context(), x.Address())
		if err != nil || state["mood"] != "good" {
			t.Errorf("InspectState: %v, %v", state, err)
		}
		send(t, x, func(*actor.Context[job]) error { time.Sleep(time.Hour); return nil })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := node.InspectState(ctx, x.Address()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("InspectState of a busy actor: %v", err)
		}
		x.Stop()
		time.Sleep(2 * time.Hour)
		if _, err := node.Inspect(actor.Address{Node: "test", Name: "nobody"}); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("Inspect of nobody: %v", err)
		}
	})
}

func TestDeadLettersAsMessages(t *testing.T) {
	node := open(t)
	letters := make(chan actor.DeadLetter, 10)
	heap := spawn(t, node, func(_ *actor.Context[actor.DeadLetter], l actor.DeadLetter) error {
		letters <- l
		return nil
	}, nil)
	cancel := node.SendDeadLetters(heap)
	gone := spawn(t, node, func(*actor.Context[string], string) error { return nil }, nil)
	gone.Stop()
	wait(t, gone)
	_ = gone.Send(t.Context(), "lost")
	if l := <-letters; l.Message != "lost" || !errors.Is(l.Reason, actor.ErrStopped) || l.To.ID != gone.Address().ID {
		t.Errorf("got %+v", l)
	}
	heap.Stop()
	wait(t, heap)
	_ = gone.Send(t.Context(), "lost") // the message about this dead letter is a dead letter, too, about which there is none
	cancel()
	cancel()
	_ = gone.Send(t.Context(), "lost")
	if n := node.DeadLetters(); n != 4 {
		t.Errorf("%d dead letters, want 4", n)
	}
}
