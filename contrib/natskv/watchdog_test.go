package natskv

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

const dogTimeout = 160 * time.Millisecond // ticks of 10 ms

// newWaiter returns a caller without a connection, and one of its inboxes.
func newWaiter() (*caller, *inbox) {
	c := newCaller(nil, dogTimeout)
	in := &inbox{ch: make(chan *nats.Msg, smallInbox)}
	c.dog.add(in)
	return c, in
}

func TestWaitEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, in := newWaiter()
		for range 3 {
			time.Sleep(7 * time.Millisecond)
			start := time.Now()
			if m, err := c.wait(t.Context(), in); err != errTimeout {
				t.Fatalf("%v, %v; want no answer in time", m, err)
			}
			if d := time.Since(start); d < dogTimeout || d > dogTimeout+2*c.dog.tick {
				t.Errorf("the wait took %v; want %v", d, dogTimeout)
			}
		}
		time.Sleep(2 * c.dog.tick)
		if c.dog.armed.Load() {
			t.Error("nobody waits, and the watchdog does not rest")
		}
	})
}

// A context with a deadline decides alone, and one that is canceled at once.
func TestWaitHeedsContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, in := newWaiter()
		ctx, cancel := context.WithTimeout(t.Context(), 10*dogTimeout)
		defer cancel()
		start := time.Now()
		if _, err := c.wait(ctx, in); err != context.DeadlineExceeded || time.Since(start) != 10*dogTimeout {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err := c.wait(ctx, in); err != context.Canceled {
			t.Errorf("a wait that was canceled: %v", err)
		}
	})
}

func TestCloseEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, in := newWaiter()
		alone := &inbox{ch: make(chan *nats.Msg, smallInbox)}
		c.dog.add(alone)
		deadline, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		errs := make(chan error, 2)
		go func() { _, err := c.wait(t.Context(), in); errs <- err }()
		go func() { _, err := c.wait(deadline, alone); errs <- err }()
		synctest.Wait()
		start := time.Now()
		c.close()
		for range 2 {
			if err := <-errs; err != errClosed || time.Since(start) > 0 {
				t.Errorf("after %v: %v; want that the store is closed, at once", time.Since(start), err)
			}
		}
		if _, err := c.wait(deadline, alone); err != errClosed {
			t.Errorf("a wait after the close: %v", err)
		}
	})
}

// The word that a wait has ended may find no room among the replies. The next wait does not take
// its own for that one.
func TestNoRoomForTheWordOfTheWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, in := newWaiter()
		since := c.dog.begin(in, true)
		for range smallInbox {
			in.ch <- &nats.Msg{}
		}
		c.dog.bark(func(int64) bool { return true })
		if <-in.ch; c.dog.end(in, since) {
			t.Fatal("the watchdog has not ended the wait")
		}
		in.late++ // as next does
		for range smallInbox - 1 {
			if m, err := c.wait(t.Context(), in); m == nil || err != nil {
				t.Fatalf("%v, %v; want a reply", m, err)
			}
		}
		start := time.Now()
		if m, err := c.wait(t.Context(), in); err != errTimeout || time.Since(start) > dogTimeout+2*c.dog.tick {
			t.Errorf("after %v: %v, %v; want no answer after %v", time.Since(start), m, err, dogTimeout)
		}
	})
}

// Replies that come just when a wait ends are taken, by that wait or by the next, and
// the word that it has ended is not taken for one to the next.
func TestRepliesAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, in := newWaiter()
		replies, timeouts := 0, 0
		for i := range 2000 {
			delay := dogTimeout + time.Duration(rand.IntN(4)-1)*c.dog.tick // often the very moment of a tick
			start := time.Now()
			time.AfterFunc(delay, func() { in.ch <- &nats.Msg{Subject: strconv.Itoa(i)} })
			m, err := c.wait(t.Context(), in)
			for err == errTimeout {
				if timeouts++; time.Since(start) < dogTimeout {
					t.Fatalf("round %d: no answer after %v", i, time.Since(start))
				}
				start = time.Now()
				m, err = c.wait(t.Context(), in)
			}
			if err != nil || m.Subject != strconv.Itoa(i) {
				t.Fatalf("round %d: %v, %v", i, m, err)
			}
			replies++
		}
		if replies != 2000 || timeouts == 0 {
			t.Errorf("%d replies, %d timeouts", replies, timeouts)
		}
	})
}
