package model

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// clocks is what a log knows of its clock; see [wallclock.Moment].
type clocks struct {
	readings map[mainstem.Position]int64 // at the commits, unix ns
	marks    []wallclock.Mark
	latest   int64 // the latest reading that was written
}

func (c *clocks) clone() clocks {
	out := *c
	out.readings = maps.Clone(c.readings)
	return out
}

// moment is when a call happens: what is over is judged by it.
type moment struct {
	wallclock.Moment
	readings map[mainstem.Position]int64
}

// nowLocked returns the present. It notices a clock that was set back, and one that was
// right before.
func (l *Log) nowLocked() moment {
	m := moment{l.clock.Moment(l.mu.marks), l.mu.readings}
	for _, mark := range l.mu.marks {
		if !slices.Contains(m.Marks, mark) { // it is void: what was written before it was written in time
			l.mu.latest = max(l.mu.latest, mark.High)
		}
	}
	l.mu.marks = m.Marks
	if m.Now < l.mu.latest-int64(wallclock.MaxBack) {
		l.mu.setBacks++
		l.mu.marks = wallclock.SetBack(l.mu.marks, wallclock.Mark{Position: uint64(l.mu.head), High: l.mu.latest, Clock: m.Now})
		m.Marks, l.mu.latest = l.mu.marks, m.Now
	}
	m.Now = max(m.Now, l.mu.latest) // a small step
	return m
}

// beginLocked returns a tx for b, which may have a time of its own.
func (l *Log) beginLocked(b *mainstem.Batch) tx {
	t := tx{state: &l.mu.state, now: l.nowLocked(), nextID: &l.mu.nextID}
	if b != nil && !b.Time.IsZero() {
		t.now.Now = min(max(b.Time.UnixNano(), l.mu.latest), t.now.Now)
	}
	t.time = wall(t.now.Now)
	if t.time.Before(l.mu.newest) {
		t.time = l.mu.newest
	}
	return t
}

func wall(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// written returns the reading at which r was written, and when it expires by that.
func (m *moment) written(r *mainstem.Record) (clock, expires int64) {
	clock, ok := m.readings[r.Position]
	if !ok {
		clock = r.Time.UnixNano()
	}
	if !r.Expires.IsZero() {
		expires = r.Expires.UnixNano()
	}
	return m.Rebase(uint64(r.Position), clock, expires)
}

// expired reports whether the time to live of r is over.
func (m *moment) expired(r *mainstem.Record) bool {
	clock, expires := m.written(r)
	return m.Over(clock, expires, 0)
}

// shown returns r as readers see it: it expires when the clock shows Expires, which is
// earlier than what was written if the clock was ahead then.
func (m *moment) shown(r *mainstem.Record) mainstem.Record {
	out := *r
	if !r.Expires.IsZero() {
		_, expires := m.written(r)
		out.Expires = wall(expires)
	}
	return out
}

// older reports whether r is older than age, 0 meaning never.
func (m *moment) older(r *mainstem.Record, age time.Duration) bool {
	clock, _ := m.written(r)
	return m.Over(clock, 0, int64(age))
}

// Clock implements [mainstem.ClockKeeper].
func (l *Log) Clock(ctx context.Context) (mainstem.ClockState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(ctx, "clock"); err != nil {
		return mainstem.ClockState{}, err
	}
	return l.clockLocked(), nil
}

func (l *Log) clockLocked() mainstem.ClockState {
	m := l.nowLocked()
	jumps, _ := l.clock.Events()
	s := mainstem.ClockState{Now: wall(l.clock.Now()), Jumps: jumps, SetBacks: l.mu.setBacks}
	if m.Hold != nil {
		s.Held = time.Duration(m.Hold.Ahead)
	}
	s.TimesAhead = max(0, l.mu.newest.Sub(s.Now))
	return s
}

// AcceptClock implements [mainstem.ClockKeeper].
func (l *Log) AcceptClock(ctx context.Context) (mainstem.ClockState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(ctx, "accept clock"); err != nil {
		return mainstem.ClockState{}, err
	}
	s := l.clockLocked()
	l.clock.Accept()
	return s, nil
}
