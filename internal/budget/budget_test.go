package budget_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem/internal/budget"
)

// taken returns a hold of n bytes that are free.
func taken(t *testing.T, b *budget.Budget, n int64) *budget.Hold {
	t.Helper()
	h := b.Hold()
	if err := h.Acquire(canceled(), n); err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
	return &h
}

// canceled returns a context that has ended: what is acquired with it does not wait.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// full fails unless a hold of n bytes would have to wait.
func full(t *testing.T, b *budget.Budget, n int64) {
	t.Helper()
	h := b.Hold()
	if err := h.Acquire(canceled(), n); err == nil {
		t.Errorf("%d bytes were acquired: %+v", n, b.Stats())
	}
	if h.Try(n) {
		t.Errorf("%d bytes were free: %+v", n, b.Stats())
	}
}

func used(b *budget.Budget) int64 { return b.Stats()[0].Used }

func TestLimit(t *testing.T) {
	b := budget.New("b", 100)
	x, y := taken(t, b, 60), taken(t, b, 40)
	full(t, b, 1)
	x.Shrink(20)
	z := taken(t, b, 20)
	full(t, b, 1)
	for _, h := range []*budget.Hold{x, y, z} {
		h.Release()
		h.Release()
	}
	if used(b) != 0 {
		t.Errorf("%+v", b.Stats())
	}
}

func TestExhaustedErrorSaysWhatThereIs(t *testing.T) {
	b := budget.New("answers", 100)
	defer taken(t, b, 80).Release()
	h := b.Hold()
	err := h.Acquire(canceled(), 30)
	var e *budget.ExhaustedError
	if !errors.As(err, &e) || e.Want != 30 || e.Used != 80 || e.Limit != 100 || e.Budget != "answers" || !errors.Is(err, context.Canceled) {
		t.Errorf("%#v", err)
	}
	if s := b.Stats()[0]; s.Refused != 1 || s.Waited != 1 || s.Waiting != 0 || s.Used != 80 {
		t.Errorf("%+v", s)
	}
}

// What is larger than the limit waits until it is alone.
func TestLargerThanTheLimitGetsTheWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New("b", 100)
		small := taken(t, b, 1)
		large, late := b.Hold(), b.Hold()
		var got sync.WaitGroup
		got.Go(func() {
			if err := large.Acquire(t.Context(), 500); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		full(t, b, 1) // it waits already
		small.Release()
		got.Wait()
		if used(b) != 500 {
			t.Errorf("%+v", b.Stats())
		}
		got.Go(func() {
			if err := late.Acquire(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if late.Size() != 0 {
			t.Error("another one was served beside it")
		}
		large.Release()
		got.Wait()
	})
}

// A stream of small requests does not starve a large one, and holds are served in order.
func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := budget.New("root", 100)
		one, other := root.Child("one", 0), root.Child("other", 0)
		first := taken(t, one, 60)
		defer taken(t, other, 10).Release()
		var mu sync.Mutex
		var order []int64
		var all sync.WaitGroup
		for i, ask := range []struct {
			b *budget.Budget
			n int64
		}{{one, 90}, {one, 1}, {other, 2}, {other, 3}} {
			all.Go(func() {
				h := ask.b.Hold()
				defer h.Release()
				if err := h.Acquire(t.Context(), ask.n); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, ask.n)
				mu.Unlock()
				time.Sleep(time.Second) // of the bubble: all others wait
			})
			synctest.Wait()
			if h := other.Hold(); i > 0 && h.Try(1) {
				t.Error("overtook those who wait")
			}
		}
		first.Release()
		all.Wait()
		if len(order) != 4 || order[0] != 90 {
			t.Errorf("served %v", order)
		}
	})
}

// A child has no more than its limit, and none has more than the parent.
func TestChildrenShare(t *testing.T) {
	root := budget.New("root", 100)
	a, b := root.Child("a", 70), root.Child("b", 70)
	h := taken(t, a, 70)
	full(t, a, 1)
	x := taken(t, b, 20)
	full(t, b, 11)
	h.Shrink(50)
	y := taken(t, b, 50)
	full(t, b, 1)
	if s := root.Stats(); len(s) != 3 || s[0].Used != 90 || s[1].Name != "a" || s[1].Used != 20 || s[2].Used != 70 {
		t.Errorf("%+v", s)
	}
	for _, h := range []*budget.Hold{h, x, y} {
		h.Release()
	}
	if used(root) != 0 {
		t.Errorf("%+v", root.Stats())
	}
}

// One that is full does not shut others out, and one whose first waiter does not fit its
// own limit does not hold up others of the same parent.
func TestChildOfOneName(t *testing.T) {
	process := budget.New("process", 100)
	a, b := process.Child("a", 10), process.Child("b", 10)
	if process.Child("a", 20) != a || a.Child("b", 5) == b {
		t.Error("a name stands for another child")
	}
	if all := process.Stats(); len(all) != 4 {
		t.Errorf("there are %d budgets, want 4: %+v", len(all), all)
	}
}

func TestNoBudgetIsShutOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := budget.New("root", 100)
		a, b := root.Child("a", 0), root.Child("b", 50)
		h := taken(t, a, 100)
		first := taken(t, b, 30)
		full(t, b, 1)
		h.Release()
		waiting := b.Hold()
		var got sync.WaitGroup
		got.Go(func() {
			if err := waiting.Acquire(t.Context(), 40); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		taken(t, a, 60).Release()
		first.Release()
		got.Wait()
	})
}

// Holds that each have a part of what they need all get on.
func TestGrowingHoldsDoNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New("b", 100)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				h := b.Hold()
				defer h.Release()
				for h.Size() < 100 {
					if err := h.Acquire(t.Context(), 10); err != nil {
						t.Error(err)
						return
					}
					if u := used(b); u > 200 {
						t.Errorf("%d bytes are used", u)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Wait()
		if used(b) != 0 {
			t.Errorf("%+v", b.Stats())
		}
	})
}

func TestGivingUpLetsOthersOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New("b", 100)
		defer taken(t, b, 50).Release()
		ctx, cancel := context.WithCancel(t.Context())
		large, small := b.Hold(), b.Hold()
		var all sync.WaitGroup
		all.Go(func() {
			if err := large.Acquire(ctx, 60); err == nil {
				t.Error("there were 50 bytes")
			}
		})
		synctest.Wait()
		all.Go(func() {
			if err := small.Acquire(t.Context(), 10); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if small.Size() != 0 {
			t.Error("overtook one that waits")
		}
		cancel()
		all.Wait()
		if small.Size() != 10 || large.Size() != 0 {
			t.Errorf("%+v", b.Stats())
		}
	})
}

// A caller that keeps to the order of the package comment is never part of a deadlock, and the
// sums are right afterwards. In the bubble a deadlock fails at once.
func TestRandomHoldersInOrderAllGetOn(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			root := budget.New("root", 100)
			ranks := []*budget.Budget{root.Child("requests", 60), root.Child("streams", 30), root.Child("unpack", 50), root.Child("answers", 80)}
			var all sync.WaitGroup
			for i := range uint64(40) {
				r := rand.New(rand.NewPCG(seed, i))
				all.Go(func() { climb(t, r, ranks) })
			}
			all.Wait()
			for _, s := range root.Stats() {
				if s.Used != 0 || s.Waiting != 0 {
					t.Errorf("seed %d: %+v", seed, s)
				}
			}
		})
	}
}

// climb takes bytes of some budgets in their order, some of them piecemeal, a few times.
func climb(t *testing.T, r *rand.Rand, ranks []*budget.Budget) {
	for range 10 {
		var held []*budget.Hold
		for _, b := range ranks {
			h := b.Hold()
			for range r.IntN(4) {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if r.IntN(5) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(1000)))
				}
				before := h.Size()
				n := 1 + r.Int64N(120)
				err := h.Acquire(ctx, n)
				cancel()
				if want := before + n; err == nil && h.Size() != want || err != nil && h.Size() != before {
					t.Errorf("the hold has %d bytes: %v", h.Size(), err)
				}
				<-time.After(time.Duration(r.IntN(1000))) // of the bubble
			}
			if r.IntN(3) == 0 {
				h.Shrink(r.Int64N(50))
			}
			held = append(held, &h)
		}
		for _, h := range held {
			h.Release()
		}
	}
}

func TestNilHasNoLimit(t *testing.T) {
	var b *budget.Budget
	h := b.Hold()
	if err := h.Acquire(canceled(), 1<<60); err != nil || !h.Try(1<<60) || h.Size() != 0 || b.Stats() != nil || b.Limit() != 0 {
		t.Error(err)
	}
	h.Release()
	if c := b.Child("c", 10); c.Limit() != 10 {
		t.Error("a child of nil has no limit")
	}
}

func BenchmarkAcquire(b *testing.B) {
	root := budget.New("root", 1<<30)
	c := root.Child("c", 0)
	for range 8 {
		root.Child("other", 0)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h := c.Hold()
			if err := h.Acquire(context.Background(), 1000); err != nil {
				b.Error(err)
			}
			h.Release()
		}
	})
}
