package budget_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/internal/budget"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recallable returns a hold of n bytes that gives them back when it is recalled, and notes
// its name then.
func recallable(t *testing.T, b *budget.Budget, n int64, name string, recalled *[]string) *budget.Hold {
	h := taken(t, b, n)
	h.OnRecall(func() {
		*recalled = append(*recalled, name)
		h.Release()
	}, nil)
	return h
}

// Of those without progress the longest gives its bytes back, and no more than are needed.
func TestStalledHoldsAreRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := budget.New("root", 100)
		answers, other := root.Child("answers", 0), root.Child("other", 0)
		var recalled []string
		first := recallable(t, answers, 30, "first", &recalled)
		time.Sleep(time.Second) // of the bubble
		recallable(t, answers, 30, "second", &recalled)
		time.Sleep(time.Second)
		first.OnRecall(func() { // progress
			recalled = append(recalled, "first")
			first.Release()
		}, nil)
		defer taken(t, other, 40).Release() // is not to be recalled
		time.Sleep(time.Hour)
		if len(recalled) > 0 {
			t.Fatalf("recalled %v though nobody waits", recalled)
		}
		h := other.Hold()
		begin := time.Now()
		if err := h.Acquire(t.Context(), 30); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != budget.Patience {
			t.Errorf("it took %s", took)
		}
		if !slices.Equal(recalled, []string{"second"}) {
			t.Errorf("recalled %v", recalled)
		}
		h.Release()
		first.Release()
		if s := root.Stats(); s[0].Used != 40 || s[1].Recalled != 1 || s[2].Recalled != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A hold with progress, one that was released, one that may not be recalled any more, and
// one whose bytes would not help are left alone.
func TestHoldsThatAreNotRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := budget.New("root", 1000)
		small, large := root.Child("small", 100), root.Child("large", 0)
		var recalled []string
		busy := taken(t, small, 50)
		defer busy.Release()
		over := recallable(t, small, 10, "taken back", &recalled)
		over.OnRecall(nil, nil)
		defer over.Release()
		recallable(t, small, 10, "released", &recalled).Release()
		moved := recallable(t, small, 40, "moved", &recalled).Move()
		defer moved.Release()
		elsewhere := recallable(t, large, 500, "elsewhere", &recalled)
		defer elsewhere.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			for ctx.Err() == nil {
				busy.OnRecall(func() { recalled = append(recalled, "busy") }, nil)
				<-time.After(budget.Patience / 2)
			}
		})
		h := small.Hold()
		moved.OnRecall(func() { recalled = append(recalled, "own") }, &h)
		if err := h.Acquire(ctx, 50); err == nil {
			t.Error("there were 50 bytes")
		}
		all.Wait()
		if len(recalled) > 0 {
			t.Errorf("recalled %v", recalled)
		}
	})
}

// Many that wait get the bytes of as many as it takes.
func TestRecallGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New("b", 100)
		var mu sync.Mutex
		recalled := 0
		for range 10 {
			h := taken(t, b, 10)
			h.OnRecall(func() {
				mu.Lock()
				defer mu.Unlock()
				recalled++
				h.Release()
			}, nil)
		}
		h := b.Hold()
		begin := time.Now()
		if err := h.Acquire(t.Context(), 65); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < budget.Patience || took > 2*budget.Patience {
			t.Errorf("it took %s", took)
		}
		mu.Lock()
		defer mu.Unlock()
		if recalled != 7 {
			t.Errorf("%d were recalled", recalled)
		}
		h.Release()
	})
}

// Who cannot wait gets nothing when nothing is free, but those without progress give way
// to the next one.
func TestWhoCannotWaitRecallsForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := budget.New("root", 100)
		b := root.Child("b", 0)
		var recalled []string
		recallable(t, root.Child("other", 0), 50, "stalled", &recalled)
		defer taken(t, b, 50).Release()
		h := b.Hold()
		for range 2 {
			var e *budget.ExhaustedError
			if err := h.AcquireNow(10); !errors.As(err, &e) || e.Want != 10 || e.Used != 50 || e.Limit != 100 || e.Cause == nil {
				t.Errorf("%v", err)
			}
			synctest.Wait()
			if len(recalled) > 0 {
				t.Fatalf("recalled %v before its time", recalled)
			}
			time.Sleep(budget.Patience / 2) // of the bubble
		}
		if err := h.AcquireNow(10); err == nil {
			t.Error("there were bytes")
		}
		synctest.Wait()
		if err := h.AcquireNow(10); err != nil || !slices.Equal(recalled, []string{"stalled"}) {
			t.Errorf("%v, recalled %v", err, recalled)
		}
		h.Release()
		if s := b.Stats()[0]; s.Refused != 3 || s.Waited != 0 || s.Used != 50 {
			t.Errorf("%+v", s)
		}
	})
}
