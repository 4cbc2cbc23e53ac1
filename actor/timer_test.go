package actor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// work is a message that its actor calls.
type work func(c *Context[work]) error

func runWork(c *Context[work], m work) error { return m(c) }

// Every has one call at most in the mailbox of a slow actor.
func TestEverySkipsPeriodsOfASlowActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Open("test", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		r, err := Spawn(n, Func[work](runWork), &Options{Mailbox: 2})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		if err := r.Send(t.Context(), func(c *Context[work]) error {
			c.Every(time.Second, func() error { calls++; return nil })
			time.Sleep(time.Minute + time.Second/2)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if i, err := n.Inspect(r.Address()); err != nil || i.Waiting != 1 {
			t.Errorf("%d calls wait, %v, want 1", i.Waiting, err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if calls != 11 { // that of the first minute, and one for each second since
			t.Errorf("%d calls, want 11", calls)
		}
	})
}

// The timer of Every ends with the incarnation also if a call waits in the mailbox.
func TestEveryEndsWithTheIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Open("test", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		s, err := Supervise(n, nil, NewChild("a", func() Func[work] { return runWork }, nil))
		if err != nil {
			t.Fatal(err)
		}
		r, err := ChildRef[work](t.Context(), s, "a")
		if err != nil {
			t.Fatal(err)
		}
		var timer *Timer
		if err := r.Send(t.Context(), func(c *Context[work]) error {
			timer = c.Every(time.Second, func() error { t.Error("a call of an incarnation that has ended"); return nil })
			time.Sleep(time.Minute)
			return errors.New("crash")
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		timer.mu.Lock()
		defer timer.mu.Unlock()
		if timer.t.Stop() {
			t.Error("the timer still runs")
		}
	})
}
