package eventtopic_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

// TestOffsetForTime compares with a walk through all events, over every millisecond
// that has some and those between.
func TestOffsetForTime(t *testing.T) {
	var clock crashtest.Clock
	log, err := pebblelog.OpenMemory(&pebblelog.Options{Now: clock.Now, SweepEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s := store(t, log, "s")
	c := open(t, log)
	random := rand.New(rand.NewPCG(1, 2))
	begin, past := clock.Now(), time.Duration(0)
	for i := range 60 {
		past += time.Duration(random.IntN(4)) * 700 * time.Microsecond
		clock.Set(past)
		write(t, s, fmt.Sprintf("%c-%d", 'a'+i%3, i%7), note(""), note(""))
		if i%10 == 0 {
			b := mainstem.NewBatch()
			b.Ensure("other", mainstem.Policy{})
			b.Put("other", []byte{byte(i + 1)}, nil)
			if _, err := log.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(s.Archive(t.Context(), "a-3"), s.Delete(t.Context(), "b-1", event.AnyVersion)); err != nil {
		t.Fatal(err)
	}
	for _, category := range []string{"", "a", "b", "c"} {
		name := "event.s"
		if category != "" {
			name += "." + category
		}
		tp := find(t, c, name)
		evs, err := s.Page(t.Context(), &event.FeedOptions{Filter: event.Filter{Category: category}})
		if err != nil || len(evs) < 10 {
			t.Fatal(len(evs), err)
		}
		for at := begin.Add(-time.Millisecond); at.Before(clock.Now().Add(2 * time.Millisecond)); at = at.Add(500 * time.Microsecond) {
			want := int64(-1)
			for _, ev := range evs {
				if !ev.Time.Truncate(time.Millisecond).Before(at) {
					want = int64(ev.Position)
					break
				}
			}
			got, ok, err := tp.OffsetForTime(t.Context(), 0, at)
			if err != nil || ok != (want >= 0) || ok && got.Offset != want {
				t.Fatalf("%s at %v: %+v, %v, %v; want %d", name, at, got, ok, err, want)
			}
			if ok && got.Time.Before(at) {
				t.Fatalf("%s at %v: found one of %v", name, at, got.Time)
			}
		}
		last := evs[len(evs)-1].Time.Truncate(time.Millisecond)
		want := int64(-1)
		for _, ev := range evs {
			if ev.Time.Truncate(time.Millisecond).Equal(last) {
				want = int64(ev.Position)
				break
			}
		}
		if got, ok, err := tp.MaxTimestamp(t.Context(), 0); err != nil || !ok || got.Offset != want || !got.Time.Equal(last) {
			t.Errorf("%s: newest %+v, %v, %v; want %d at %v", name, got, ok, err, want, last)
		}
	}
}

func TestLookupsInNothing(t *testing.T) {
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := log.CreateSpace(t.Context(), "event/s", mainstem.Policy{}); err != nil {
		t.Fatal(err)
	}
	tp := find(t, open(t, log), "event.s")
	if end, err := tp.End(t.Context(), 0); end != 0 || err != nil {
		t.Error(end, err)
	}
	if c := read(t, tp, 0, nil); len(c.Data) != 0 || c.End != 0 {
		t.Errorf("%+v", c)
	}
	if f, ok, err := tp.MaxTimestamp(t.Context(), 0); ok || err != nil {
		t.Error(f, ok, err)
	}
	if f, ok, err := tp.OffsetForTime(t.Context(), 0, time.Unix(0, 0)); ok || err != nil {
		t.Error(f, ok, err)
	}
}
