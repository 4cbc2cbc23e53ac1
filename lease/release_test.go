package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/lease"
)

// A Release that fails because the log cannot be reached is repeated when it can. Other members
// need not wait for the end of the session, which goes on.
func TestReleaseDuringAnOutage(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		net := newNetwork(log)
		a, b := join(t, net, "a", 1), join(t, log, "b", 1)
		var leases []*lease.Lease
		for i := range 50 {
			l, err := a.Acquire(t.Context(), fmt.Sprint("k", i), "")
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		pass(ttl/5 + time.Millisecond) // just renewed
		net.cut()
		for _, l := range leases {
			if err := l.Release(t.Context()); !errors.Is(err, mainstem.ErrUnavailable) || l.Valid() {
				t.Fatalf("Release of %s: %v, valid %t, want Unavailable and not valid", l.Key(), err, l.Valid())
			}
		}
		pass(ttl / 2)
		if _, err := b.Acquire(t.Context(), "k7", ""); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("Acquire during the outage: %v, want ErrHeld", err)
		}
		net.heal()
		healed := time.Now()
		await(t, b, "the leases to be free", func() bool { return len(b.Holders("k")) == 0 })
		if took := time.Since(healed); took > ttl/10 {
			t.Errorf("the leases were free after %v, want at most %v", took, ttl/10)
		}
		for _, l := range leases {
			next, err := b.Acquire(t.Context(), l.Key(), "")
			if err != nil || next.Epoch() <= l.Epoch() {
				t.Fatalf("Acquire of %s: %v", l.Key(), err)
			}
			if err := fenced(t, log, l); !errors.Is(err, mainstem.ErrConflict) {
				t.Errorf("a write of the former owner: %v, want Conflict", err)
			}
		}
		pass(2 * ttl)
		if s, err := a.Session(t.Context()); err != nil || s.Epoch() != leases[0].Session() {
			t.Errorf("the session of the former owner is another: %v", err)
		}
		if n := len(b.Holders("k")); n != len(leases) {
			t.Errorf("%d leases are held, want %d", n, len(leases))
		}
	})
}

// fenced commits a write that only the owner of l can commit.
func fenced(t *testing.T, log mainstem.Log, l *lease.Lease) error {
	b := mainstem.NewBatch()
	b.Ensure("results", mainstem.Policy{})
	b.Put("results", []byte("r"), nil)
	l.Fence(b)
	_, err := log.Commit(t.Context(), b)
	return err
}

// A session can acquire a key again that it has released, whether or not the entry of the former
// lease is deleted yet: the later deletion does not touch the new lease.
func TestAcquireAfterAReleaseThatFailed(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		t.Run(fmt.Sprintf("frozen=%t", frozen), func(t *testing.T) {
			virtual(t, func(t *testing.T, log mainstem.Log) {
				net := newNetwork(log)
				a, b := join(t, net, "a", 1), join(t, log, "b", 1)
				former, err := a.Acquire(t.Context(), "k", "")
				if err != nil {
					t.Fatal(err)
				}
				if frozen {
					net.freeze()
				} else {
					net.cut()
				}
				released := make(chan error)
				go func() { released <- former.Release(t.Context()) }()
				synctest.Wait()
				acquired := make(chan *lease.Lease)
				go func() {
					l, err := a.Acquire(t.Context(), "k", "")
					if err != nil {
						t.Errorf("Acquire: %v", err)
					}
					acquired <- l
				}()
				pass(time.Second)
				net.heal()
				<-released
				l := <-acquired
				if l == nil {
					return
				}
				pass(2 * ttl)
				if h, ok := b.Holder("k"); !ok || h.Epoch != l.Epoch() || l.Epoch() <= former.Epoch() || !l.Valid() {
					t.Errorf("the owner is %+v, want epoch %d, above %d", h, l.Epoch(), former.Epoch())
				}
				if err := fenced(t, log, l); err != nil {
					t.Errorf("a write of the owner: %v", err)
				}
				if err := fenced(t, log, former); !errors.Is(err, mainstem.ErrConflict) {
					t.Errorf("a write under the former lease: %v, want Conflict", err)
				}
			})
		})
	}
}

// stuck is a log in which deletions of leases take longer than any caller waits.
type stuck struct{ mainstem.Log }

func (s stuck) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	for _, w := range b.Writes() {
		if w.Op == mainstem.OpDelete && strings.HasPrefix(string(w.Key), "lease/") {
			<-ctx.Done()
			return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindCanceled, Op: "commit", Err: ctx.Err(), Outcome: mainstem.Unknown}
		}
	}
	return s.Log.Commit(ctx, b)
}

// A repeated Release does not delay renewals.
func TestAReleaseThatHangsEndsNoSession(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		a := join(t, stuck{log}, "a", 1)
		l, err := a.Acquire(t.Context(), "k", "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Release(ctx); !errors.Is(err, mainstem.ErrCanceled) {
			t.Errorf("Release: %v, want Canceled", err)
		}
		pass(10 * ttl)
		if s, err := a.Session(t.Context()); err != nil || s.Epoch() != l.Session() {
			t.Errorf("the session is over: %v", err)
		}
	})
}
