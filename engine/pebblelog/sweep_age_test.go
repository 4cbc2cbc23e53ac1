package pebblelog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// TestSweepAgeWithoutFeed removes old records from spaces without a feed, where they are among
// young ones. When nothing is old, a sweep does not wait for commits, nor do they for it.
func TestSweepAgeWithoutFeed(t *testing.T) {
	for _, history := range []int{0, 1, 3} {
		t.Run(fmt.Sprint("history ", history), func(t *testing.T) {
			clock := enginetest.NewClock()
			l, err := OpenMemory(&Options{Now: clock.Now, Monotonic: clock.Monotonic, SweepEvery: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			const keys = 5 * sweepChunk
			write := func(every int) {
				t.Helper()
				var b mainstem.Batch
				b.Ensure("s", mainstem.Policy{History: history, NoFeed: true, MaxAge: time.Hour})
				for i := 0; i < keys; i += every {
					b.Put("s", fmt.Appendf(nil, "key-%04d", i), nil)
				}
				if _, err := l.Commit(t.Context(), &b); err != nil {
					t.Fatal(err)
				}
			}
			write(1)
			clock.Advance(40 * time.Minute)
			write(3)
			clock.Advance(40 * time.Minute)
			if err := l.sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			const young = (keys + 2) / 3
			if info, err := l.Space(t.Context(), "s"); err != nil || info.Records != young || info.Keys != young {
				t.Errorf("%d records of %d keys are left, want %d; %v", info.Records, info.Keys, young, err)
			}
			if _, err := l.Check(t.Context(), func(p mainstem.Problem) { t.Errorf("%s: %s", p.Where, p.What) }); err != nil {
				t.Error(err)
			}
			held, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				done <- l.between(context.Background(), "test", func() {
					close(held)
					<-release
				})
			}()
			<-held
			defer func() {
				close(release)
				if err := <-done; err != nil {
					t.Error(err)
				}
			}()
			swept := make(chan error, 1)
			go func() { swept <- l.sweep(context.Background()) }()
			testkit.Eventually(t, "a sweep beside a commit ends", func() bool { return len(swept) > 0 })
			if err := <-swept; err != nil {
				t.Error(err)
			}
		})
	}
}
