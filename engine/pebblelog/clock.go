package pebblelog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// Expiry is judged by the clock, not by the times of records: see [wallclock.Moment]. A
// record keeps the reading at its commit beside its time where the two differ. A mark is a
// key; what it concerns in the indexes by time is moved in the background.

// moment is the time of one read or one commit. It does not change.
type moment struct{ wallclock.Moment }

// moment returns the present. The marks are read first: those of a clock that went back
// must not be applied to the reading before it did.
func (l *Log) moment() moment {
	m := moment{l.clock.Moment(l.clockMarks())}
	if m.Now < l.latest.Load()-int64(wallclock.MaxBack) {
		l.clockChanged()
	}
	return m
}

// clockChanged has the sweeper look at the clock.
func (l *Log) clockChanged() {
	if l.sweeper != nil {
		l.sweeper.poke()
	}
}

func (l *Log) clockMarks() []wallclock.Mark {
	if p := l.marks.Load(); p != nil {
		return *p
	}
	return nil
}

// rebase replaces the clock and the expiry of a record that was written while the clock
// was ahead. Doing it twice changes nothing.
func (m *moment) rebase(b *format.Body) {
	b.Clock, b.Expires = m.Rebase(b.Position, b.Clock, b.Expires)
}

// readClock sets the times of a tx from the clock: now, by which it judges and from which
// times to live count, and time, which its records get. given, unless 0, is the time
// that the batch asks for. If marks is true it writes a mark where one is due.
func (t *tx) readClock(given int64, marks bool) {
	l := t.l
	t.moment = l.moment()
	t.latest = l.latest.Load()
	if marks {
		t.setBack()
		t.setRight()
	}
	if behind := t.latest - t.Now; behind > 0 && behind <= int64(wallclock.MaxBack) {
		t.Now = t.latest
	}
	if given != 0 {
		t.Now = min(max(given, min(t.latest, t.Now)), t.Now)
	}
	t.time = max(t.Now, t.last)
}

// setBack writes a mark if the clock is behind the latest reading that was written.
// Marks with later readings are part of it.
func (t *tx) setBack() {
	if t.latest-t.Now <= int64(wallclock.MaxBack) {
		return
	}
	all := t.l.clockMarks()
	marks := wallclock.SetBack(all, wallclock.Mark{Position: t.next - 1, High: t.latest, Clock: t.Now})
	mark := marks[len(marks)-1]
	for _, m := range all {
		if !slices.Contains(marks, m) {
			t.del(format.AppendClockKey(nil, m.Position))
		}
	}
	t.set(format.AppendClockKey(nil, mark.Position), format.AppendClockMark(nil, mark.High, mark.Clock))
	t.remark(marks, t.Now)
	t.onPublish(func() {
		t.l.setBacks.Add(1)
		t.l.opts.Logger.Warn("the clock was set back: records written while it was ahead expire as if they were written now",
			"was", wallTime(mark.High), "now", wallTime(mark.Clock), "position", mark.Position)
	})
}

// setRight removes the marks that are void.
func (t *tx) setRight() {
	all := t.l.clockMarks()
	if t.remarked || len(t.Marks) == len(all) {
		return
	}
	latest := t.latest
	for _, m := range all {
		if !slices.Contains(t.Marks, m) {
			latest = max(latest, m.High)
			t.del(format.AppendClockKey(nil, m.Position))
		}
	}
	t.remark(t.Marks, latest)
}

// remark makes marks the ones of the log, and latest the latest reading that counts
// from now on. The indexes by time have to be looked through.
func (t *tx) remark(marks []wallclock.Mark, latest int64) {
	t.Marks, t.latest, t.remarked = marks, latest, true
	t.Marks = t.Valid()
	t.set([]byte{format.TagClock}, nil)
	t.l.keyStates.clear() // their expiries are others now
	t.onPublish(func() {
		t.l.marks.Store(&marks)
		t.l.latest.Store(latest)
		t.l.moving = moving{pending: true}
		t.l.unmoved.Store(true)
		t.l.sweeper.poke()
	})
}

// markerPosition tells a version marker written since the marks from those before them. A version marker has
// no position of its own.
func (t *tx) markerPosition() uint64 {
	if len(t.Marks) == 0 {
		return 0
	}
	return t.next
}

// loadClock reads the marks at open. latest is the reading at the newest commit.
func (l *Log) loadClock(latest int64) error {
	var marks []wallclock.Mark
	err := l.walk(format.TagClock, func(k, v []byte) error {
		if len(k) == 1 {
			l.moving.pending = true
			l.unmoved.Store(true)
			return nil
		}
		position, high, clock, err := format.DecodeClockMark(k, v)
		if err != nil || len(marks) > 0 && clock <= marks[len(marks)-1].Clock {
			return fmt.Errorf("clock mark %x: %w", k, format.ErrCorrupt)
		}
		marks = append(marks, wallclock.Mark{Position: position, High: high, Clock: clock})
		return nil
	})
	switch n := len(marks); {
	case n == 0:
		latest = l.tx.last // nothing is later than the time of the newest record
	case marks[n-1].Position >= l.position.Load(): // nothing was written since
		latest = min(latest, marks[n-1].Clock)
	}
	l.marks.Store(&marks)
	l.latest.Store(latest)
	return err
}

// minding reports whether the sweeper has to do something about the clock: write or
// remove marks.
func (l *Log) minding() bool {
	m := l.moment()
	return m.Now < l.latest.Load()-int64(wallclock.MaxBack) || len(m.Marks) < len(l.clockMarks())
}

// mindClock writes or removes marks if it is time.
func (l *Log) mindClock(ctx context.Context) error {
	if !l.minding() {
		return nil
	}
	nothing := func(*tx) error { return nil }
	return l.enqueue(ctx, &waiter{job: nothing, frees: true, clock: true, op: "sweep", wake: make(chan struct{}, 1)})
}

// moveAll moves what the marks concern.
func (l *Log) moveAll(ctx context.Context) error {
	for l.unmoved.Load() {
		if err := l.removal(ctx, "sweep", (*tx).moveIndexes); err != nil {
			return err
		}
	}
	return nil
}

// Clock implements [mainstem.ClockKeeper].
func (l *Log) Clock(context.Context) (mainstem.ClockState, error) {
	if err := l.usable("clock"); err != nil {
		return mainstem.ClockState{}, err
	}
	return l.clockState(), nil
}

// AcceptClock implements [mainstem.ClockKeeper]. What has expired by it is removed soon.
func (l *Log) AcceptClock(context.Context) (mainstem.ClockState, error) {
	if err := l.usable("accept clock"); err != nil {
		return mainstem.ClockState{}, err
	}
	s := l.clockState()
	l.clock.Accept()
	l.sweeper.poke()
	return s, nil
}

func (l *Log) clockState() mainstem.ClockState {
	now := l.clock.Now()
	jumps, _ := l.clock.Events()
	s := mainstem.ClockState{Now: wallTime(now), Jumps: jumps, SetBacks: l.setBacks.Load()}
	if h := l.clock.Hold(); h != nil {
		s.Held = time.Duration(h.Ahead)
	}
	if newest := l.newest.Load(); newest > now {
		s.TimesAhead = time.Duration(newest - now)
	}
	return s
}

func wallTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }
