package actor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

type question struct {
	n     int
	reply actor.Reply[int]
}

func ask(ctx context.Context, r actor.Ref[question], n int) (int, error) {
	return actor.Ask(ctx, r, func(p actor.Reply[int]) question { return question{n, p} })
}

// oracle answers with ten times the number. It does not answer 0, answers -1 with an error, and
// crashes at -2.
func oracle(_ *actor.Context[question], q question) error {
	switch q.n {
	case 0:
		return nil
	case -1:
		return q.reply.Fail(errNegative)
	case -2:
		return errNegative
	}
	return q.reply.Send(10 * q.n)
}

var errNegative = errors.New("negative")

func TestAsk(t *testing.T) {
	node := open(t)
	r := spawn(t, node, oracle, nil)
	for n := 1; n < 100; n++ {
		if v, err := ask(t.Context(), r, n); v != 10*n || err != nil {
			t.Fatalf("ask %d: %d, %v", n, v, err)
		}
	}
	if _, err := ask(t.Context(), r, -1); err != errNegative {
		t.Errorf("Fail: %v, want the error as it is", err)
	}
	if _, err := ask(t.Context(), r, -2); !errors.Is(err, actor.ErrNoReply) || !errors.Is(err, errNegative) {
		t.Errorf("crash: %v, want ErrNoReply and the reason", err)
	}
	if _, err := ask(t.Context(), r, 1); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("stopped: %v, want ErrStopped", err)
	}
	if _, err := ask(t.Context(), actor.Ref[question]{}, 1); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("nobody: %v, want ErrStopped", err)
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		r := spawn(t, node, oracle, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := ask(ctx, r, 0)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mainstem.ErrCanceled) {
			t.Errorf("ask: %v, want DeadlineExceeded of kind Canceled", err)
		}
	})
}

func TestOnlyTheFirstAnswerCounts(t *testing.T) {
	node := open(t)
	var late actor.Reply[int]
	r := spawn(t, node, func(_ *actor.Context[question], q question) error {
		if err := q.reply.Send(q.n); err != nil {
			return err
		}
		if late.Asked() {
			if err := late.Send(-1); err != actor.ErrReplied {
				t.Errorf("late answer: %v, want ErrReplied", err)
			}
		}
		if err := q.reply.Fail(errNegative); err != actor.ErrReplied {
			t.Errorf("second answer: %v, want ErrReplied", err)
		}
		late = q.reply
		return nil
	}, nil)
	for n := range 1000 {
		if v, err := ask(t.Context(), r, n); v != n || err != nil {
			t.Fatalf("ask %d: %d, %v: an answer of another question?", n, v, err)
		}
	}
	r.Drain()
	wait(t, r)
}

// Questions are pooled. If an actor answers a question and fails after that, the failure must not
// close the question, which its asker may have used again by then.
func TestCrashAfterAnswerLeavesOtherQuestionsAlone(t *testing.T) {
	node := open(t)
	slow := spawn(t, node, func(_ *actor.Context[question], q question) error {
		return q.reply.Send(q.n)
	}, nil)
	for n := range 300 {
		hold := make(chan struct{})
		crashing := spawn(t, node, func(_ *actor.Context[question], q question) error {
			if err := q.reply.Send(q.n); err != nil {
				return err
			}
			<-hold
			return errNegative
		}, nil)
		if _, err := ask(t.Context(), crashing, n); err != nil {
			t.Fatal(err)
		}
		close(hold)
		if v, err := ask(t.Context(), slow, n); v != n || err != nil {
			t.Fatalf("ask %d: %d, %v", n, v, err)
		}
	}
}

func TestQuestionThatIsDroppedFailsAtOnce(t *testing.T) {
	node := open(t)
	hold := make(chan struct{})
	r := spawn(t, node, func(_ *actor.Context[question], q question) error {
		<-hold
		return errNegative
	}, &actor.Options{Mailbox: 1, Overflow: actor.DropOldest})
	send(t, r, question{})
	testkit.Eventually(t, "all messages to be handled", func() bool { i, _ := node.Inspect(r.Address()); return i.Waiting == 0 && i.State == "running" })
	errs := make(chan error, 2)
	for i := range 2 {
		go func() {
			_, err := ask(t.Context(), r, i)
			errs <- err
		}()
		testkit.Eventually(t, "one message to wait", func() bool { i, _ := node.Inspect(r.Address()); return i.Waiting == 1 })
	}
	if err := <-errs; !errors.Is(err, actor.ErrNoReply) || !errors.Is(err, actor.ErrMailboxFull) {
		t.Errorf("dropped: %v, want ErrNoReply because the mailbox is full", err)
	}
	close(hold)
	if err := <-errs; !errors.Is(err, actor.ErrNoReply) || !errors.Is(err, actor.ErrStopped) {
		t.Errorf("stopped: %v, want ErrNoReply because the actor stopped", err)
	}
}

// Ask returns when the actor that waits for the answer is asked to end.
func TestStopInterruptsAnActorThatAsks(t *testing.T) {
	node := open(t)
	silent := spawn(t, node, oracle, nil)
	r := worker(t, node, nil)
	errs := make(chan error, 1)
	send(t, r, func(c *actor.Context[job]) error {
		_, err := ask(c, silent, 0)
		errs <- err
		return nil
	})
	testkit.Eventually(t, "the question to be handled", func() bool { i, err := node.Inspect(silent.Address()); return err == nil && i.Handled == 1 })
	r.Stop()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("ask: %v, want Canceled", err)
	}
	wait(t, r)
}

func TestAskThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		r := spawn(t, node, oracle, nil)
		asker := worker(t, node, nil)
		var got []string
		note := func(v int, err error) error {
			got = append(got, fmt.Sprint(v, " ", errors.Is(err, context.DeadlineExceeded), errors.Is(err, actor.ErrNoReply)))
			return nil
		}
		put := func(n int) func(actor.Reply[int]) question {
			return func(p actor.Reply[int]) question { return question{n, p} }
		}
		send(t, asker, func(c *actor.Context[job]) error {
			actor.AskThen(c, r, 0, put(1), note)
			actor.AskThen(c, r, time.Second, put(0), note) // never answered
			cancel := actor.AskThen(c, r, 0, put(2), func(int, error) error {
				t.Error("a question that was taken back is answered")
				return nil
			})
			cancel()
			return nil
		})
		time.Sleep(time.Minute)
		send(t, asker, func(c *actor.Context[job]) error {
			actor.AskThen(c, r, time.Second, put(-2), note)
			return nil
		})
		synctest.Wait()
		reason := endedBy(t, asker, func() {
			send(t, asker, func(c *actor.Context[job]) error {
				actor.AskThen(c, r, time.Second, put(3), func(_ int, err error) error { return err })
				return nil
			})
		})
		if !errors.Is(reason, actor.ErrStopped) {
			t.Errorf("reason %v, want the error that then returned", reason)
		}
		if want := "[10 false false 0 true false 0 false true]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

// A question that was answered while its message is still in a mailbox must not be used again: the
// message, if it is dropped, would fail the later question.
func TestQuestionAnsweredBeforeItsMessageIsHandled(t *testing.T) {
	for range 30 {
		node := open(t)
		hold := make(chan struct{})
		busy := spawn(t, node, func(_ *actor.Context[question], q question) error {
			<-hold
			if q.n == 1 {
				return errNegative
			}
			return nil
		}, nil)
		send(t, busy, question{})
		v, err := actor.Ask(t.Context(), busy, func(p actor.Reply[int]) question {
			_ = p.Send(5)
			return question{1, p}
		})
		if v != 5 || err != nil {
			t.Fatalf("ask: %d, %v", v, err)
		}
		other := spawn(t, node, func(c *actor.Context[question], q question) error {
			close(hold)
			if _, err := actor.Wait(c, busy); err != nil {
				return err
			}
			return q.reply.Send(7)
		}, nil)
		if v, err := ask(t.Context(), other, 2); v != 7 || err != nil {
			t.Fatalf("ask: %d, %v: the end of another actor was taken for this one's", v, err)
		}
	}
}

func TestForward(t *testing.T) {
	node := open(t)
	back := spawn(t, node, oracle, nil)
	front := func(to actor.Ref[question], end error) actor.Ref[question] {
		return spawn(t, node, func(c *actor.Context[question], q question) error {
			_ = actor.Forward(c, to, q) // after an error the question has failed
			return end
		}, nil)
	}
	if v, err := ask(t.Context(), front(back, nil), 7); v != 70 || err != nil {
		t.Errorf("through another: %d, %v", v, err)
	}
	if v, err := ask(t.Context(), front(front(back, nil), errNegative), 7); v != 70 || err != nil {
		t.Errorf("through one that ended: %d, %v", v, err)
	}
	gone := spawn(t, node, oracle, nil)
	gone.Stop()
	if _, err := actor.Wait(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]actor.Ref[question]{"gone": gone, "nobody": {}, "elsewhere": elsewhere(t, node)} {
		if _, err := ask(t.Context(), front(to, nil), 7); !errors.Is(err, actor.ErrNoReply) {
			t.Errorf("to %s: %v, want ErrNoReply", name, err)
		}
	}
	if _, err := ask(t.Context(), front(back, nil), -2); !errors.Is(err, actor.ErrNoReply) || !errors.Is(err, errNegative) {
		t.Errorf("to one that failed over it: %v, want ErrNoReply and the reason", err)
	}
}

// elsewhere is an actor of a node that no transport reaches.
func elsewhere(t *testing.T, n *actor.Node) actor.Ref[question] {
	t.Helper()
	r, err := actor.At[question](n, actor.Address{Node: "far", Name: "oracle"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
