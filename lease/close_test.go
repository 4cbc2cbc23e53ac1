package lease_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/lease"
)

// Close removes the member, whichever goroutine of the keeper is the first to see the end of the
// session.
func TestWhoClosesIsGoneAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		for start := range uint64(200) {
			a := join(t, log, "a", start)
			if _, err := a.Acquire(t.Context(), "k", ""); err != nil {
				t.Fatal(err)
			}
			leave(t, a)
			for _, key := range []string{"member/a", "beat/a", "lease/k"} {
				if _, err := log.Get(t.Context(), a.Space(), []byte(key)); !errors.Is(err, mainstem.ErrNotFound) {
					t.Fatalf("%s after Close: %v, want NotFound", key, err)
				}
			}
		}
	})
}

// Of two concurrent calls of Close, the first one removes the member, and both return after that.
func TestCloseTwiceAtTheSameTime(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		for start := range uint64(500) {
			a := join(t, log, "a", start)
			if _, err := a.Acquire(t.Context(), "k", ""); err != nil {
				t.Fatal(err)
			}
			var both sync.WaitGroup
			both.Go(func() { leave(t, a) })
			both.Go(func() { leave(t, a) })
			both.Wait()
			for _, key := range []string{"member/a", "beat/a", "lease/k"} {
				if _, err := log.Get(t.Context(), a.Space(), []byte(key)); !errors.Is(err, mainstem.ErrNotFound) {
					t.Fatalf("%s after Close: %v, want NotFound", key, err)
				}
			}
		}
	})
}

func TestLaterCloseWaitsForTheFirst(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		n := newNetwork(log)
		a := join(t, n, "a", 1)
		n.freeze()
		var calls sync.WaitGroup
		returned := make(chan struct{})
		for range 2 {
			calls.Go(func() {
				leave(t, a)
				returned <- struct{}{}
			})
		}
		synctest.Wait()
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := a.Close(ctx); !errors.Is(err, mainstem.ErrCanceled) {
				t.Errorf("Close that may not wait for the first one: %v, want Canceled", err)
			}
			returned <- struct{}{}
		})
		<-returned // the one that does not wait
		synctest.Wait()
		select {
		case <-returned:
			t.Error("Close returned before the member was removed")
		default:
		}
		n.heal()
		<-returned
		<-returned
		calls.Wait()
		if _, err := log.Get(t.Context(), a.Space(), []byte("member/a")); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("the member after Close: %v, want NotFound", err)
		}
	})
}

// lateAnswers commits the deletion of a lease at once, and returns only when it is allowed to.
type lateAnswers struct {
	mainstem.Log
	done   chan struct{} // gets a value when the commit was carried out
	answer chan struct{}
}

func (l *lateAnswers) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	r, err := l.Log.Commit(ctx, b)
	if w := b.Writes(); len(w) == 1 && w[0].Op == mainstem.OpDelete {
		l.done <- struct{}{}
		<-l.answer
	}
	return r, err
}

// While a Release is under way, the entry of its lease is deleted before the session has its
// answer. Close removes the member all the same.
func TestCloseBesideRelease(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		late := &lateAnswers{Log: log, done: make(chan struct{}), answer: make(chan struct{})}
		a := join(t, late, "a", 1)
		k, err := a.Acquire(t.Context(), "k", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Acquire(t.Context(), "other", ""); err != nil {
			t.Fatal(err)
		}
		released := make(chan error)
		go func() { released <- k.Release(t.Context()) }()
		<-late.done
		leave(t, a)
		if _, err := log.Get(t.Context(), a.Space(), []byte("member/a")); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("the member after Close: %v, want NotFound", err)
		}
		b := join(t, log, "b", 1)
		for _, key := range []string{"k", "other"} {
			if _, err := b.Acquire(t.Context(), key, ""); err != nil {
				t.Errorf("Acquire of %s after its owner has left: %v", key, err)
			}
		}
		close(late.answer)
		if err := <-released; err != nil {
			t.Error(err)
		}
	})
}

// deaf is a log whose feed yields nothing.
type deaf struct{ mainstem.Log }

func (d deaf) Feed(ctx context.Context, _ mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		<-ctx.Done()
		yield(mainstem.Record{}, &mainstem.Error{Kind: mainstem.KindCanceled, Op: "feed", Err: ctx.Err()})
	}
}

// If Open fails when it has a session already, it ends the session at once.
func TestOpenThatGivesUpEndsItsSession(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := lease.Open(ctx, deaf{log}, lease.Member{Name: "a"}, &lease.Options{TTL: ttl}); !errors.Is(err, mainstem.ErrCanceled) {
			t.Errorf("Open: %v, want Canceled", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("Open took %v, want 1s", took)
		}
	})
}
