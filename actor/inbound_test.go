package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
)

// A question that is dropped at another node fails at once where it was asked.
func TestQuestionsThatOtherNodesDropFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := twoNodes(t)
		ask := func(ctx context.Context, r actor.Ref[Errand]) error {
			_, err := actor.Ask(ctx, r, func(p actor.Reply[string]) Errand { return Errand{Reply: p} })
			return err
		}
		release := make(chan struct{})
		failing := spawn(t, there, func(*actor.Context[Errand], Errand) error { return errors.New("failed") }, nil)
		full := spawn(t, there, func(*actor.Context[Errand], Errand) error { <-release; return nil }, &actor.Options{Mailbox: 1})
		for name, c := range map[string]struct {
			to   actor.Address
			want error
		}{
			"gone":    {actor.Address{Node: there.Name(), Name: "nobody"}, actor.ErrStopped},
			"failing": {failing.Address(), actor.ErrNoReply},
		} {
			r, err := actor.At[Errand](here, c.to)
			if err != nil {
				t.Fatal(err)
			}
			if err := ask(t.Context(), r); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		far, err := actor.At[Errand](here, full.Address())
		if err != nil {
			t.Fatal(err)
		}
		send(t, full, Errand{})
		synctest.Wait()
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		waiting := make(chan error, 1)
		go func() { waiting <- ask(late, far) }()
		synctest.Wait()
		if err := ask(t.Context(), far); !errors.Is(err, actor.ErrMailboxFull) {
			t.Errorf("full: %v, want ErrMailboxFull", err)
		}
		if err := <-waiting; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("late: %v, want DeadlineExceeded", err)
		}
		time.Sleep(time.Millisecond)
		before := there.DeadLetters()
		close(release)
		synctest.Wait()
		if i, err := there.Inspect(full.Address()); err != nil || there.DeadLetters() != before+1 {
			t.Errorf("%+v, %v: want the late question dropped", i, err)
		}
	})
}

func TestQuestionsToLostNodesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := twoNodes(t)
		silent := spawn(t, there, func(*actor.Context[Errand], Errand) error { return nil }, nil)
		far, err := actor.At[Errand](here, silent.Address())
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := actor.Ask(t.Context(), far, func(p actor.Reply[string]) Errand { return Errand{Reply: p} })
			failed <- err
		}()
		synctest.Wait()
		here.Inbound().Lost("another")
		here.Inbound().Lost(there.Name())
		if err := <-failed; !errors.Is(err, actor.ErrNoReply) || !errors.Is(err, actor.NodeDown) || !errors.Is(err, mainstem.ErrUnavailable) {
			t.Errorf("%v, want ErrNoReply because of NodeDown", err)
		}
	})
}

// Messages from other nodes wait for room in a mailbox with the policy Block, in order, while
// Deliver returns at once. They become dead letters if the actor ends first.
func TestArrivalsWaitForFullMailboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		release := make(chan struct{})
		var got []int
		r := spawn(t, node, func(_ *actor.Context[int], n int) error {
			<-release
			if got = append(got, n); n == 10 {
				return errors.New("enough")
			}
			return nil
		}, &actor.Options{Mailbox: 2, Overflow: actor.Block})
		in := node.Inbound()
		ctx := in.Arriving(t.Context())
		for n := range 20 {
			if err := in.Deliver(ctx, actor.Delivery{To: r.Address(), Message: n}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		for i, n := range got {
			if i != n {
				t.Errorf("got %v", got)
			}
		}
		if len(got) != 11 || node.DeadLetters() != 9 {
			t.Errorf("%d handled, %d dead letters: want 11 and 9", len(got), node.DeadLetters())
		}
	})
}

func TestTaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		in := node.Inbound()
		owner := worker(t, node, nil)
		var e *actor.Event[int]
		send(t, owner, func(c *actor.Context[job]) (err error) {
			e, err = actor.NewEvent[int](c, "numbers", &actor.EventOptions{Replay: 2})
			return err
		})
		synctest.Wait()
		publish := func(n int) {
			if err := in.Publish(t.Context(), "numbers", n); err != nil {
				t.Error(err)
			}
		}
		publish(1)
		var values []any
		var ends []error
		keep := 0
		tap := actor.Tap{
			Ready: func(n int) { keep = n },
			Value: func(_ context.Context, v any) error { values = append(values, v); return nil },
			Ended: func(reason error) { ends = append(ends, reason) },
		}
		if _, err := in.Subscribe("numbers", tap); err != nil {
			t.Fatal(err)
		}
		other := 0
		cancel, err := in.Subscribe("numbers", actor.Tap{
			Ready: func(int) {}, Ended: func(error) { t.Error("ended after it was cancelled") },
			Value: func(context.Context, any) error { other++; return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		publish(2)
		synctest.Wait()
		cancel()
		publish(3)
		owner.Kill()
		synctest.Wait()
		if keep != 2 || len(values) != 3 || values[2] != 3 || len(ends) != 1 || ends[0] != actor.Killed || other != 2 {
			t.Errorf("kept %d, values %v, ends %v, %d before the other was cancelled", keep, values, ends, other)
		}
		if err := in.Publish(t.Context(), "numbers", 4); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("Publish by an event that has ended: %v, want NotFound", err)
		}
		if _, err := actor.NewEvent[string](node, "numbers", nil); err != nil {
			t.Fatal(err)
		}
		if err := in.Publish(t.Context(), "numbers", 5); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("Publish of another type: %v, want Invalid", err)
		}
		_ = e
	})
}
