package pebblelog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// TestLimitIsEnforced gives a space a limit while the log is open and nothing else is to
// be swept.
func TestLimitIsEnforced(t *testing.T) {
	l, err := pebblelog.OpenMemory(&pebblelog.Options{SweepEvery: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	write := func(space string, p mainstem.Policy) {
		b := mainstem.NewBatch()
		b.Ensure(space, p)
		for i := range 10 {
			b.Put(space, fmt.Appendf(nil, "key-%d", i), []byte("value"))
		}
		if _, err := l.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	swept := func(space string) {
		t.Helper()
		testkit.Succeeds(t, space+" is swept", func() error {
			info, err := l.Space(t.Context(), space)
			if err == nil && info.Records > 0 {
				err = fmt.Errorf("it holds %d records", info.Records)
			}
			return err
		})
	}
	write("altered", mainstem.Policy{})
	if err := l.AlterSpace(t.Context(), "altered", mainstem.Policy{MaxBytes: 1}); err != nil {
		t.Fatal(err)
	}
	swept("altered")
	write("created", mainstem.Policy{MaxAge: time.Nanosecond})
	swept("created")
	if err := l.CreateSpace(t.Context(), "empty", mainstem.Policy{MaxAge: time.Nanosecond}); err != nil {
		t.Fatal(err)
	}
	write("empty", mainstem.Policy{})
	swept("empty")
}

// TestExpiredIsSweptWhenItIsDue has records expire at many moments, some of them while the
// sweeper removes others. Nobody calls Sweep.
func TestExpiredIsSweptWhenItIsDue(t *testing.T) {
	l, err := pebblelog.OpenMemory(&pebblelog.Options{SweepEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for round := range 3 { // nothing is left to be removed when the second one begins
		for i := range 100 {
			b := mainstem.NewBatch()
			b.Ensure("s", mainstem.Policy{NoFeed: true})
			b.Add(mainstem.Write{Space: "s", Key: fmt.Appendf(nil, "key-%d", i), TTL: time.Duration(1+i%20) * time.Millisecond})
			if _, err := l.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Succeeds(t, fmt.Sprint("what has expired is removed in round ", round), func() error {
			info, err := l.Space(t.Context(), "s")
			if err == nil && info.Records > 0 {
				err = fmt.Errorf("the space holds %d records", info.Records)
			}
			return err
		})
	}
}
