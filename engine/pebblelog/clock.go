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

// Expiry is judged by the clock, not by the times of records: see [wallclock.Moment]. A record
// has the reading of the clock at its commit beside its time if the two differ. A mark, which
// says that the clock was set back, is a key. Entries of the indexes by time that it affects are
// moved in the background (clock_move.go).

// moment is the time by which one read or one commit is judged. It does not change.
type moment struct{ wallclock.Moment }

// moment returns the present moment. It reads the marks first: marks of a clock that was set
// back must not be applied to a reading from before.
func (l *Log) moment() moment {
	m := moment{l.clock.Moment(l.clockMarks())}
	if m.Now < l.latest.Load()-int64(wallclock.MaxBack) {
		l.clockChanged()
	}
	return m
}

// clockChanged wakes the sweeper, which checks the clock.
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

// rebase replaces the clock and the expiry of a record that was written while the clock was
// ahead. It is idempotent.
func (m *moment) rebase(b *format.Body) {
	b.Clock, b.Expires = m.Rebase(b.Position, b.Clock, b.Expires)
}

// readClock sets the times of a tx from the clock: now, by which the tx judges expiry and from
// which times to live count, and time, which its records get. given, unless 0, is the time that
// the batch asks for, in unix ns. With marks set, readClock writes a mark if one is due.
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

// setBack writes a mark if the clock is behind the latest reading that was written. The new mark
// replaces marks with later readings.
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

// setRight removes marks that are void.
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

// remark replaces the marks of the log by marks, and sets latest to the latest reading that
// counts from now on. The indexes by time must be moved afterwards.
func (t *tx) remark(marks []wallclock.Mark, latest int64) {
	t.Marks, t.latest, t.remarked = marks, latest, true
	t.Marks = t.Valid()
	t.set([]byte{format.TagClock}, nil)
	t.l.keyStates.clear() // their expiries have changed
	t.onPublish(func() {
		t.l.marks.Store(&marks)
		t.l.latest.Store(latest)
		t.l.moving = moving{pending: true}
		t.l.unmoved.Store(true)
		t.l.sweeper.poke()
	})
}

// markerPosition returns the position for a version marker, which has none of its own: it shows
// whether the marker was written before or after the marks.
func (t *tx) markerPosition() uint64 {
	if len(t.Marks) == 0 {
		return 0
	}
	return t.next
}

// loadClock reads the marks at open. latest is the reading of the clock at the newest commit.
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
		latest = l.tx.last // no record is later than the newest one
	case marks[n-1].Position >= l.position.Load(): // nothing was written since
		latest = min(latest, marks[n-1].Clock)
	}
	l.marks.Store(&marks)
	l.latest.Store(latest)
	return err
}

// minding reports whether marks must be written or removed.
func (l *Log) minding() bool {
	m := l.moment()
	return m.Now < l.latest.Load()-int64(wallclock.MaxBack) || len(m.Marks) < len(l.clockMarks())
}

// mindClock writes or removes marks if that is due.
func (l *Log) mindClock(ctx context.Context) error {
	if !l.minding() {
		return nil
	}
	nothing := func(*tx) error { return nil }
	return l.enqueue(ctx, &waiter{job: nothing, frees: true, clock: true, op: "sweep", wake: make(chan struct{}, 1)})
}

// moveAll moves all index entries that the marks affect.
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

// AcceptClock implements [mainstem.ClockKeeper]. The sweeper removes soon what has expired by
// the accepted time.
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
