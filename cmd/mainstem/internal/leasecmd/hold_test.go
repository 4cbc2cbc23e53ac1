package leasecmd

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/lease"
)

// outage is a log that cannot be reached while down is set.
type outage struct {
	mainstem.Log
	down atomic.Bool
}

func (o *outage) err() error {
	if o.down.Load() {
		return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "network", Outcome: mainstem.NotWritten}
	}
	return nil
}

func (o *outage) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if err := o.err(); err != nil {
		return mainstem.Receipt{}, err
	}
	return o.Log.Commit(ctx, b)
}

func (o *outage) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	if err := o.err(); err != nil {
		return mainstem.Record{}, err
	}
	return o.Log.Get(ctx, space, key)
}

func (o *outage) Head(ctx context.Context) (mainstem.Position, error) {
	if err := o.err(); err != nil {
		return 0, err
	}
	return o.Log.Head(ctx)
}

func (o *outage) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	if err := o.err(); err != nil {
		return func(yield func(mainstem.Record, error) bool) { yield(mainstem.Record{}, err) }
	}
	return o.Log.Feed(ctx, f)
}

// tried is how mainstem lease hold has ended without the lease.
type tried struct {
	err  error
	took time.Duration
	said string // on standard error
}

// try waits for the lease "job" in virtual time. It does not get it.
func try(t *testing.T, log mainstem.Log, wait time.Duration, noWait bool) tried {
	t.Helper()
	said := new(testkit.Lines)
	h := &hold{commands: commands{&cli.Main{Stderr: said}}, name: "job", bucket: holdBucket, ttl: 10 * time.Second, wait: wait, noWait: noWait}
	began := time.Now()
	err := h.run(t.Context(), log, "/nonexistent", []string{"nonexistent"})
	return tried{err, time.Since(began), said.String()}
}

// A log that cannot be reached is waited for as long as the lease, or for one TTL.
func TestWaitForALogThatCannotBeReached(t *testing.T) {
	for _, c := range []struct {
		wait   time.Duration
		noWait bool
		took   time.Duration
	}{
		{wait: 100 * time.Millisecond, took: 100 * time.Millisecond},
		{wait: time.Minute, took: time.Minute},
		{noWait: true, took: 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := &outage{Log: model.New(nil)}
			defer log.Close()
			log.down.Store(true)
			r := try(t, log, c.wait, c.noWait)
			if !errors.Is(r.err, mainstem.ErrUnavailable) || errors.Is(r.err, mainstem.ErrCanceled) || r.took != c.took {
				t.Errorf("--wait %v, --no-wait %t: %v after %v, want Unavailable after %v", c.wait, c.noWait, r.err, r.took, c.took)
			}
		})
	}
}

// While another member has the lease, that is what the error says, unless the log is lost meanwhile.
func TestWaitForALeaseThatIsHeld(t *testing.T) {
	for _, c := range []struct {
		wait   time.Duration
		noWait bool
		lost   bool // the log cannot be reached after a second
		want   error
		took   time.Duration
	}{
		{wait: 50 * time.Millisecond, want: lease.ErrHeld, took: 50 * time.Millisecond},
		{wait: time.Minute, want: lease.ErrHeld, took: time.Minute},
		{wait: time.Minute, lost: true, want: mainstem.ErrUnavailable, took: time.Minute},
		{noWait: true, want: lease.ErrHeld},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := &outage{Log: model.New(nil)}
			defer log.Close()
			first, err := lease.Open(t.Context(), log.Log, lease.Member{Name: "first"}, &lease.Options{Bucket: holdBucket})
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close(t.Context())
			if _, err := first.Acquire(t.Context(), "job", "the first"); err != nil {
				t.Fatal(err)
			}
			if c.lost {
				time.AfterFunc(time.Second, func() { log.down.Store(true) })
			}
			r := try(t, log, c.wait, c.noWait)
			if !errors.Is(r.err, c.want) || errors.Is(r.err, mainstem.ErrCanceled) || r.took != c.took {
				t.Errorf("%+v: %v after %v", c, r.err, r.took)
			}
			if !c.noWait && !strings.HasPrefix(r.said, "waiting for the lease job, held by the first\n") {
				t.Errorf("it said %q", r.said)
			}
		})
	}
}
