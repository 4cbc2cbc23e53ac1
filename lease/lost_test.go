package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/lease"
)

// lostAnswers is a log that loses the answers to commits that acquire a lease, while lose is set.
// It carries the commits out when may is closed.
type lostAnswers struct {
	mainstem.Log
	lose    atomic.Bool
	may     chan struct{} // closed: commits are carried out at once
	carried atomic.Int64  // commits carried out whose answers were lost
}

func newLostAnswers(log mainstem.Log) *lostAnswers {
	return &lostAnswers{Log: log, may: make(chan struct{})}
}

func (l *lostAnswers) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	takes := func(w mainstem.Write) bool {
		return w.Op == mainstem.OpPut && strings.HasPrefix(string(w.Key), "lease/")
	}
	if !l.lose.Load() || !slices.ContainsFunc(b.Writes(), takes) {
		return l.Log.Commit(ctx, b)
	}
	go func() {
		<-l.may
		if _, err := l.Log.Commit(context.WithoutCancel(ctx), b); err == nil {
			l.carried.Add(1)
		}
	}()
	<-ctx.Done()
	return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindCanceled, Op: "commit", Err: ctx.Err(), Outcome: mainstem.Unknown}
}

// unanswered acquires a key with a timeout of a second and expects an unknown outcome.
func unanswered(t *testing.T, k *lease.Keeper, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := k.Acquire(ctx, key, ""); !errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Fatalf("Acquire of %s without an answer: %v, want an unknown outcome", key, err)
	}
}

// free waits until b can acquire the key, which the session of a has acquired without learning of
// it. That session goes on.
func free(t *testing.T, a, b *lease.Keeper, key string, within time.Duration) {
	t.Helper()
	session := a.Self().Epoch
	began := time.Now()
	await(t, b, "the lease to be free", func() bool { _, held := b.Holder(key); return !held })
	if took := time.Since(began); took > within {
		t.Errorf("the lease was free after %v, want at most %v", took, within)
	}
	l, err := b.Acquire(t.Context(), key, "")
	if err != nil {
		t.Fatal(err)
	}
	pass(2 * ttl)
	if !l.Valid() || a.Self().Epoch != session {
		t.Errorf("the lease of the next owner is valid: %t; the former session is %d, was %d", l.Valid(), a.Self().Epoch, session)
	}
}

// An Acquire that has written its entry, and whose answer was lost, keeps the key from nobody.
func TestAcquireWhoseAnswerIsLost(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		lost := newLostAnswers(log)
		close(lost.may)
		a, b := join(t, lost, "a", 1), join(t, log, "b", 1)
		lost.lose.Store(true)
		for i := range 20 {
			unanswered(t, a, fmt.Sprint("k", i))
		}
		free(t, a, b, "k7", time.Second)
		if held := b.Holders("k"); len(held) != 1 {
			t.Errorf("held are %v, want k7", held)
		}
	})
}

// The same holds if the commit is carried out long after its caller has given up.
func TestAcquireThatArrivesLate(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		lost := newLostAnswers(log)
		a, b := join(t, lost, "a", 1), join(t, log, "b", 1)
		lost.lose.Store(true)
		unanswered(t, a, "k")
		pass(ttl)
		if _, held := b.Holder("k"); held {
			t.Fatal("the commit was not held back")
		}
		close(lost.may)
		synctest.Wait()
		if n := lost.carried.Load(); n != 1 {
			t.Fatalf("%d commits were carried out late, want 1", n)
		}
		free(t, a, b, "k", time.Second)
	})
}

// The same session can acquire the key at once, and keeps it.
func TestAcquireAgainAfterALostAnswer(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		lost := newLostAnswers(log)
		close(lost.may)
		a, b := join(t, lost, "a", 1), join(t, log, "b", 1)
		for i := range 20 {
			key := fmt.Sprint("k", i)
			lost.lose.Store(true)
			unanswered(t, a, key)
			lost.lose.Store(false)
			l, err := a.Acquire(t.Context(), key, "")
			if err != nil {
				t.Fatal(err)
			}
			pass(ttl)
			if h, ok := b.Holder(key); !ok || h.Epoch != l.Epoch() || !l.Valid() {
				t.Fatalf("the owner of %s is %+v, want epoch %d", key, h, l.Epoch())
			}
			if err := fenced(t, log, l); err != nil {
				t.Errorf("a write of the owner: %v", err)
			}
		}
	})
}
