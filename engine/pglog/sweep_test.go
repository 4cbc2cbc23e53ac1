package pglog

import (
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// TestSweepThatWasOvertaken has a sweep read a clock that jumped forward, and sends it when
// the clock has come back and others have written at the right time again: nothing that
// lives is removed.
func TestSweepThatWasOvertaken(t *testing.T) {
	const year = 365 * 24 * time.Hour
	clock := new(testkit.Clock)
	clock.Set(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	l, err := Open(t.Context(), testpostgres.FastDB(t), &Options{Now: clock.Now, Monotonic: clock.Monotonic, SweepEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	put := func(key string) {
		t.Helper()
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{History: 3})
		b.Add(mainstem.Write{Space: "s", Key: []byte(key), TTL: 30 * time.Minute})
		if _, err := l.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func() {
		t.Helper()
		if err := l.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	clock.Advance(10 * time.Minute)
	clock.Set(clock.Now().Add(year))
	sweep()
	put("b")
	sent := 0
	err = l.atReading(t.Context(), func(q rowQuerier, now *int64) error {
		clock.Set(clock.Now().Add(-year))
		put("c")
		sent++
		var n int
		return q.QueryRow(t.Context(), l.dialect.sql("SELECT {schema}.sweep_expired($1, $2)"), now, sweepChunk).Scan(&n)
	})
	if err != errClockMoved || sent != 1 {
		t.Fatalf("%d statements, %v, want one and %v", sent, err, errClockMoved)
	}
	sweep()
	clock.Advance(20*time.Minute - 1)
	for _, key := range []string{"b", "c"} {
		if _, err := l.Get(t.Context(), "s", []byte(key)); err != nil {
			t.Errorf("%s is gone: %v", key, err)
		}
	}
}
