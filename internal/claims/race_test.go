package claims_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/claims"
)

// interrupted is a log that calls between, once, before the first commit that writes to the key of a
// subscription. It is set after the subscription was opened.
type interrupted struct {
	mainstem.Log
	between func()
}

func (i *interrupted) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if between := i.between; between != nil && slices.ContainsFunc(b.Writes(), func(w mainstem.Write) bool { return string(w.Key) == "mailer" }) {
		i.between = nil
		between()
	}
	return i.Log.Commit(ctx, b)
}

// openOn returns a subscription on a log in memory with room for limit writes in a batch.
func openOn(t *testing.T, limit int) (*interrupted, *claims.Subscription) {
	t.Helper()
	log, err := pebblelog.OpenMemory(&pebblelog.Options{Limits: mainstem.Limits{MaxBatchWrites: limit}})
	must(t, err)
	t.Cleanup(func() { must(t, log.Close()) })
	i := &interrupted{Log: log}
	store, err := event.Open(i, "shop", nil)
	must(t, err)
	s, err := claims.Open(store, "mailer")
	must(t, err)
	return i, s
}

// parkEntries parks events of the positions from first to last.
func parkEntries(t *testing.T, s *claims.Subscription, first, last int) {
	t.Helper()
	_, err := s.Change(t.Context(), func(b *mainstem.Batch, _ *claims.State) error {
		var entries []claims.Entry
		for at := first; at <= last; at++ {
			entries = append(entries, claims.Entry{Position: mainstem.Position(at), Stream: "order-1", Version: 1})
		}
		s.Park(b, entries, "a test", time.Now())
		return nil
	})
	must(t, err)
}

// An event that another process parks while the subscription is deleted is removed with it. So are
// more parked events than one batch may have.
func TestDeleteLeavesNothing(t *testing.T) {
	log, s := openOn(t, 1100)
	config := claims.Config{Strategy: claims.RoundRobin, Timeout: time.Minute, Buffer: 4}
	must(t, s.Put(t.Context(), config))
	for n := range 3 {
		parkEntries(t, s, 1+n*1000, (n+1)*1000)
	}
	log.between = func() { parkEntries(t, s, 5000, 5000) }
	must(t, s.Delete(t.Context()))
	if log.between != nil {
		t.Fatal("no event was parked while the subscription was deleted")
	}
	if err := s.Delete(t.Context()); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("deleting again: %v", err)
	}
	must(t, s.Put(t.Context(), config))
	wantPositions(t, "parked", parked(t, s), nil)
}

// Of two processes that create a subscription at the same time, the later one replaces the Config.
func TestPutAtTheSameTime(t *testing.T) {
	log, s := openOn(t, 1100)
	log.between = func() {
		must(t, s.Put(t.Context(), claims.Config{Strategy: claims.Single, Timeout: time.Minute, Buffer: 1}))
	}
	must(t, s.Put(t.Context(), claims.Config{Strategy: claims.RoundRobin, Timeout: time.Minute, Buffer: 4}))
	if in, err := s.Info(t.Context()); err != nil || in.Config.Strategy != claims.RoundRobin || in.Config.Buffer != 4 {
		t.Errorf("the subscription has the config %+v, %v", in.Config, err)
	}
}
