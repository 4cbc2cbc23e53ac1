package follow

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// failing fails every second feed, after one record.
type failing struct {
	mainstem.Log
	feeds int
}

var errPasses = &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "feed"}

func (l *failing) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	l.feeds++
	if l.feeds%2 == 0 {
		return l.Log.Feed(ctx, f)
	}
	return func(yield func(mainstem.Record, error) bool) {
		for rec, err := range l.Log.Feed(ctx, f) {
			if !yield(rec, err) {
				return
			}
			yield(mainstem.Record{}, errPasses)
			return
		}
	}
}

func openLog(t *testing.T) mainstem.Log {
	t.Helper()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() }) // a test may have closed it
	return log
}

func put(t *testing.T, log mainstem.Log, value string) {
	t.Helper()
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	b.Put("s", []byte("k"), []byte(value))
	if _, err := log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// A feed that fails goes on behind the last record: none is missing, none comes twice.
func TestFeedGoesOn(t *testing.T) {
	log := openLog(t)
	put(t, log, "1")
	put(t, log, "2")
	got, failures := "", 0
	err := Feed(t.Context(), &failing{Log: log}, mainstem.Filter{Spaces: []string{"s"}}, func(r *mainstem.Record) bool {
		got += string(r.Value)
		if got == "12" {
			put(t, log, "3")
		}
		return got != "123"
	}, func(err error) {
		if !errors.Is(err, errPasses) {
			t.Errorf("reports %v, want %v", err, errPasses)
		}
		failures++
	})
	if err != nil || got != "123" || failures == 0 {
		t.Errorf("%q with %d errors, then %v: want 123 in spite of an error, then none", got, failures, err)
	}
}

func TestFeedEnds(t *testing.T) {
	log := openLog(t)
	put(t, log, "1")
	ctx, cancel := context.WithCancel(t.Context())
	err := Feed(ctx, log, mainstem.Filter{}, func(*mainstem.Record) bool { cancel(); return true }, nil)
	if !errors.Is(err, context.Canceled) || errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("the context ends: %v, want %v", err, context.Canceled)
	}
	closed := make(chan struct{})
	err = Feed(t.Context(), log, mainstem.Filter{}, func(*mainstem.Record) bool {
		go func() {
			defer close(closed)
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		}()
		return true
	}, func(err error) { t.Errorf("a closed log is tried again: %v", err) })
	if !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("the log is closed: %v, want %v", err, mainstem.ErrClosed)
	}
	<-closed
}
