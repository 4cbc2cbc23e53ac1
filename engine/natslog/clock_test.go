package natslog_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// wall is a clock that moves only when it is told to.
type wall struct{ ns atomic.Int64 }

func newWall() *wall {
	w := new(wall)
	w.ns.Store(time.Date(2031, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	return w
}

func (w *wall) now() time.Time      { return time.Unix(0, w.ns.Load()) }
func (w *wall) set(d time.Duration) { w.ns.Add(int64(d)) }

// scanned returns the keys of the space s.
func scanned(t *testing.T, log mainstem.Log) string {
	t.Helper()
	var keys []string
	for r, err := range log.Scan(t.Context(), "s", mainstem.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(r.Key))
	}
	return fmt.Sprint(keys)
}

func mustSweep(t *testing.T, log *natslog.Log) {
	t.Helper()
	if err := log.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func clockOf(t *testing.T, log *natslog.Log) mainstem.ClockState {
	t.Helper()
	s, err := log.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What frames say of a clock that was ahead outlives their being repacked and deleted.
func TestClockAheadAfterRepacking(t *testing.T) {
	w := newWall()
	l := openTidy(t)
	l.o.Now = w.now
	reopen := func() {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l.Log = open(t, l.url, l.o)
	}
	w.set(365 * 24 * time.Hour)
	reopen()
	l.write(func(b *mainstem.Batch) {
		b.Ensure("s", mainstem.Policy{})
		b.Add(mainstem.Write{Space: "s", Key: []byte("ahead"), TTL: time.Hour})
		for i := range 60 {
			b.Put("s", fmt.Append(nil, i), nil)
		}
	})
	w.set(-365 * 24 * time.Hour)
	l.write(func(b *mainstem.Batch) {
		for i := range 60 {
			b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "s", Key: fmt.Append(nil, i)})
		}
		b.Add(mainstem.Write{Space: "s", Key: []byte("later"), TTL: 30 * time.Minute})
	})
	if n := l.messages(); n > 3 {
		t.Fatalf("the stream has %d messages: nothing was repacked", n)
	}
	reopen()
	w.set(30 * time.Minute)
	if got := scanned(t, l); got != "[ahead]" {
		t.Fatalf("after half an hour there is %s", got)
	}
	l.write(func(b *mainstem.Batch) { b.Put("s", []byte("new"), nil) })
	l.messages()
	w.set(time.Hour)
	mustSweep(t, l.Log)
	if got := scanned(t, l); got != "[new]" {
		t.Fatalf("after an hour more there is %s", got)
	}
	if s := clockOf(t, l.Log); s.TimesAhead < 300*24*time.Hour {
		t.Errorf("the clock is %+v", s)
	}
}

// Clocks of processes that differ a little are not taken for one that was set back.
func TestProcessesWithOtherClocks(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	right, ahead := newWall(), newWall()
	ahead.set(30 * time.Second)
	o := natslog.Options{Stream: "S", SweepEvery: -1, Latest: true}
	o.Now = right.now
	a := open(t, srv.URL(), o)
	o.Now = ahead.now
	b := open(t, srv.URL(), o)
	var last time.Time
	for i := range 20 {
		for _, log := range []*natslog.Log{a, b} {
			batch := mainstem.NewBatch()
			batch.Ensure("s", mainstem.Policy{})
			batch.Add(mainstem.Write{Space: "s", Key: fmt.Append(nil, i), TTL: time.Minute})
			r := mustCommit(t, log, batch)
			if r.Time.Before(last) {
				t.Fatalf("the time of position %d is %v, that of the one before %v", r.First, r.Time, last)
			}
			last = r.Time
		}
		right.set(time.Second)
		ahead.set(time.Second)
	}
	for _, log := range []*natslog.Log{a, b} {
		if s := clockOf(t, log); s.SetBacks != 0 || s.Jumps != 0 {
			t.Errorf("the clock is %+v", s)
		}
	}
	ahead.set(time.Minute)
	if got := scanned(t, b); got != "[]" {
		t.Errorf("to the process whose clock is ahead there is %s", got)
	}
}

// A clock that comes back, passes the time of a record again, and comes back from there to a
// later time than at first: the record counts as written then, the second time too. It does
// so to the process that saw it, to one that only reads the frames, and to one that opens the
// log later, when the frame that says so holds no record any more.
func TestClockComesBackTwice(t *testing.T) {
	const day = 24 * time.Hour
	w := newWall()
	l := openTidy(t)
	l.o.Now = w.now
	w.set(10 * day)
	saw, other := open(t, l.url, l.o), open(t, l.url, l.o)
	put := func(key string, ttl time.Duration) {
		t.Helper()
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{})
		b.Add(mainstem.Write{Space: "s", Key: []byte(key), TTL: ttl})
		mustCommit(t, saw, b)
	}
	put("a", day)
	w.set(-10 * day)
	put("first", 0)
	w.set(10 * day)
	mustSweep(t, saw)
	w.set(-5 * day)
	mustSweep(t, saw)
	if s := clockOf(t, saw); s.SetBacks != 2 {
		t.Errorf("before a frame says so the clock is %+v, want 2 set-backs", s)
	}
	put("second", time.Hour)
	if s := clockOf(t, saw); s.SetBacks != 2 {
		t.Errorf("the clock is %+v, want 2 set-backs", s)
	}
	everywhere := func(want string) {
		t.Helper()
		for who, log := range map[string]*natslog.Log{"who saw it": saw, "who did not": other, "who opens the log": open(t, l.url, l.o)} {
			if got := scanned(t, log); got != want {
				t.Errorf("to %s there is %s, want %s", who, got, want)
			}
		}
	}
	everywhere("[a first second]")
	w.set(23 * time.Hour)
	put("third", 0)
	mustSweep(t, saw)
	mustSweep(t, saw) // deletes what died with the first
	everywhere("[a first third]")
	w.set(2 * time.Hour)
	everywhere("[first third]")
}
