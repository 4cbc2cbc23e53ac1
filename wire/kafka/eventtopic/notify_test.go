package eventtopic_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func wait(t testing.TB, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(time.Minute):
		t.Fatal("not woken")
	}
}

func TestNotify(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := store(t, log, "s")
		write(t, s, "a-1", note("")) // so that there is a topic
		write(t, s, "b-1", note(""))
		c := open(t, log)
		c.SetLinger(time.Millisecond)
		wakeAll, wakeA := make(chan struct{}, 1), make(chan struct{}, 1)
		stopAll, err := find(t, c, "event.s").Notify(0, wakeAll)
		if err != nil {
			t.Fatal(err)
		}
		stopA, err := find(t, c, "event.s.a").Notify(0, wakeA)
		if err != nil {
			t.Fatal(err)
		}
		write(t, s, "b-1", note(""))
		wait(t, wakeAll)
		if len(wakeA) != 0 {
			t.Error("category a was woken by an event of category b")
		}
		write(t, s, "a-1", note(""))
		wait(t, wakeA)
		wait(t, wakeAll)
		if n := c.Followed(); n != 1 {
			t.Errorf("%d followers for one store", n)
		}
		stopAll()
		stopA()
		testkit.Eventually(t, "the follower ends", func() bool { return c.Followed() == 0 })
		write(t, s, "a-1", note(""))
		if len(wakeA)+len(wakeAll) != 0 {
			t.Error("woken after stop")
		}
	})
}

// TestNothingIsMissed waits as fetches do: register, look, wait, while followers end and
// begin all the time.
func TestNothingIsMissed(t *testing.T) {
	log := testengines.Memory(t)
	s := store(t, log, "s")
	write(t, s, "a-1", note("0"))
	c := open(t, log)
	c.SetLinger(time.Microsecond)
	tp := find(t, c, "event.s")
	const n = 300
	written := make(chan error, 1)
	go func() {
		for i := 1; i < n; i++ {
			if _, err := s.Append(context.Background(), "a-1", event.AnyVersion, []event.Event{note(fmt.Sprint(i))}); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	next := int64(0)
	for seen := 0; seen < n; {
		wake := make(chan struct{}, 1)
		stop, err := tp.Notify(0, wake)
		if err != nil {
			t.Fatal(err)
		}
		chunk := read(t, tp, next, nil)
		if len(chunk.Data) == 0 {
			wait(t, wake)
		}
		stop()
		got, _ := records(t, chunk.Data)
		for _, r := range got {
			if string(r.Value) != fmt.Sprint(seen) {
				t.Fatalf("record %d is %s", seen, r.Value)
			}
			seen++
		}
		next = chunk.Next
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
}

func TestCloseEndsWaiting(t *testing.T) {
	log := testengines.Memory(t)
	write(t, store(t, log, "s"), "a-1", note(""))
	c := open(t, log)
	tp := find(t, c, "event.s")
	wake := make(chan struct{}, 1)
	stop, err := tp.Notify(0, wake)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	wait(t, wake)
	stop()
	if _, err := tp.Notify(0, wake); !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestTheLogIsClosedFirst: closing the log before the catalog is a mistake of the caller, but
// nothing hangs or spins.
func TestTheLogIsClosedFirst(t *testing.T) {
	log := testengines.Memory(t)
	write(t, store(t, log, "s"), "a-1", note(""))
	c := open(t, log)
	tp := find(t, c, "event.s")
	wake := make(chan struct{}, 1)
	if _, err := tp.Notify(0, wake); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	wait(t, wake)
	testkit.Eventually(t, "the follower ends", func() bool { return c.Followed() == 0 })
	if _, err := tp.Notify(0, wake); !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("on a closed log: %v", err)
	}
}
