package event_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
)

// TestSettingsAreModifiedByManyAtOnce: each change is made to what the one before it left.
func TestSettingsAreModifiedByManyAtOnce(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		const writers, changes = 4, 5
		var done sync.WaitGroup
		for w := range writers {
			done.Go(func() {
				for i := range changes {
					_, err := s.ModifySettings(t.Context(), "order-1", func(v *event.Settings) error {
						v.MaxCount++
						if v.Custom == nil {
							v.Custom = map[string]string{}
						}
						v.Custom[strconv.Itoa(w)] = strconv.Itoa(i)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		done.Wait()
		v, err := s.Settings(t.Context(), "order-1")
		if err != nil || v.MaxCount != writers*changes || len(v.Custom) != writers {
			t.Errorf("settings %+v, %v", v, err)
		}
	})
}

func TestModifySettingsFails(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		refused := errors.New("refused")
		_, err := s.ModifySettings(t.Context(), "order-1", func(*event.Settings) error { return refused })
		if !errors.Is(err, refused) {
			t.Errorf("an error of change: %v", err)
		}
		_, err = s.ModifySettings(t.Context(), "", func(*event.Settings) error { return nil })
		wantKind(t, err, mainstem.ErrInvalid)
		_, err = s.ModifySettings(t.Context(), "order-1", func(v *event.Settings) error { v.MaxAge = -1; return nil })
		wantKind(t, err, mainstem.ErrInvalid)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = s.ModifySettings(ctx, "order-1", func(v *event.Settings) error { v.MaxCount = 1; return nil }); err == nil {
			t.Error("it goes on after its context has ended")
		}
		// In a batch, beside a write of somebody else.
		b := mainstem.NewBatch()
		if err := s.ModifySettingsTo(t.Context(), b, "order-1", func(v *event.Settings) error { v.MaxCount = 2; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := s.SetSettings(t.Context(), "order-1", event.Settings{MaxCount: 3}); err != nil {
			t.Fatal(err)
		}
		_, err = log.Commit(t.Context(), b)
		wantKind(t, err, mainstem.ErrConflict)
		if v, err := s.Settings(t.Context(), "order-1"); err != nil || v.MaxCount != 3 {
			t.Errorf("settings %+v, %v", v, err)
		}
	})
}

// Age counts by the clock of the log: a jump that the log does not accept makes no event older.
func TestScavengeByTheClockOfTheLog(t *testing.T) {
	var ahead atomic.Int64
	began := time.Now()
	log, err := pebblelog.OpenMemory(&pebblelog.Options{
		Now:       func() time.Time { return began.Add(time.Since(began)).Add(time.Duration(ahead.Load())).Round(0) },
		Monotonic: func() time.Duration { return time.Since(began) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s, err := event.Open(log, "shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, "order-1", some("E", 3))
	if err := s.SetSettings(t.Context(), "order-1", event.Settings{MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(2 * time.Hour))
	for accepted, want := range []uint64{0, 3} {
		if accepted > 0 {
			if _, err := log.AcceptClock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, scavenge := range []func(context.Context) (event.Scavenged, error){s.Scavengeable, s.Scavenge} {
			if done, err := scavenge(t.Context()); err != nil || done.Events != want {
				t.Errorf("with the jump accepted %d times: %+v, %v: want %d events", accepted, done, err, want)
			}
		}
	}
}
