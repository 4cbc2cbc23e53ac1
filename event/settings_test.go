package event_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
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
