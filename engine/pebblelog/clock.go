package pebblelog

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// A log has two times. The time of a record never decreases with its position: while
// the clock is behind the newest record, records get that record's time. What expires
// is judged by the clock itself: a record's time to live and its age count from the
// reading at its commit, which it keeps beside its time where the two differ.
//
// When the clock is found behind the latest reading that was written, records were
// written while it was ahead. A mark is kept with the position and the reading then:
// records up to there with later readings count as written at that reading, so their
// times to live run out after it is known to be wrong, and not when the wrong reading
// comes to pass. A mark is void once the clock has passed the latest reading again: the
// clock had been right, or it no longer matters.
//
// A jump forward is not believed while the log is open; see package wallclock.

// moment is the time of one read or one commit, with what it takes to compare records
// with it. It does not change.
type moment struct {
	now   int64              // unix ns
	marks []format.ClockMark // by position, and so by Clock
	hold  *wallclock.Hold
}

// moment returns the present. The marks are read first: those of a clock that went back
// must not be applied to the reading before it did.
func (l *Log) moment() moment {
	m := moment{marks: l.clockMarks()}
	m.now = l.clock.Now()
	m.hold = l.clock.Hold()
	m.leaveVoid()
	if m.now < l.latest.Load()-int64(wallclock.MaxBack) {
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

// leaveVoid leaves out the marks whose latest reading the clock has passed, unless it did
// so by a jump that nobody has accepted.
func (m *moment) leaveVoid() {
	void := func(mark format.ClockMark) bool { return mark.High <= m.now }
	if m.hold == nil && slices.ContainsFunc(m.marks, void) {
		m.marks = slices.DeleteFunc(slices.Clone(m.marks), void)
	}
}

func (l *Log) clockMarks() []format.ClockMark {
	if p := l.marks.Load(); p != nil {
		return *p
	}
	return nil
}

// rebase replaces the clock and the expiry of a record that was written while the clock
// was ahead. Doing it twice changes nothing.
func (m *moment) rebase(b *format.Body) {
	i := sort.Search(len(m.marks), func(i int) bool { return m.marks[i].Position >= b.Position })
	if i == len(m.marks) || b.Clock <= m.marks[i].Clock {
		return
	}
	if b.Expires != 0 && b.Expires != math.MaxInt64 {
		b.Expires -= b.Clock - m.marks[i].Clock
	}
	b.Clock = m.marks[i].Clock
}

// over reports whether what was written at a reading of the clock, and expires at
// expires (0: never) or when it is older than maxAge (0: never), is over. All in ns.
func (m *moment) over(clock, expires, maxAge int64) bool {
	now := m.hold.At(m.now, clock)
	return expires != 0 && expires <= now || format.TooOld(clock, now, maxAge)
}

// due returns up to when, unix ns, entries of the indexes by time are due.
func (m *moment) due() int64 { return m.hold.Trusted(m.now) }

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
	if behind := t.latest - t.now; behind > 0 && behind <= int64(wallclock.MaxBack) {
		t.now = t.latest
	}
	if given != 0 {
		t.now = min(max(given, min(t.latest, t.now)), t.now)
	}
	t.time = max(t.now, t.last)
}

// setBack writes a mark if the clock is behind the latest reading that was written.
// Marks with later readings are part of it.
func (t *tx) setBack() {
	if t.latest-t.now <= int64(wallclock.MaxBack) || t.l.upgrade() != nil {
		return
	}
	mark := format.ClockMark{Position: t.next - 1, High: t.latest, Clock: t.now}
	var marks []format.ClockMark
	for _, m := range t.l.clockMarks() {
		if m.Clock < mark.Clock && m.Position < mark.Position {
			marks = append(marks, m)
			continue
		}
		mark.High, mark.Clock = max(mark.High, m.High), min(mark.Clock, m.Clock)
		t.del(format.AppendClockKey(nil, m.Position))
	}
	t.set(format.AppendClockKey(nil, mark.Position), format.AppendClockMark(nil, mark))
	t.remark(append(marks, mark), t.now)
	t.onPublish(func() {
		t.l.setBacks.Add(1)
		t.l.opts.Logger.Warn("the clock was set back: records written while it was ahead expire as if they were written now",
			"was", wallTime(mark.High), "now", wallTime(mark.Clock), "position", mark.Position)
	})
}

// setRight removes the marks that are void.
func (t *tx) setRight() {
	all := t.l.clockMarks()
	if t.remarked || len(t.marks) == len(all) {
		return
	}
	latest := t.latest
	for _, m := range all {
		if !slices.Contains(t.marks, m) {
			latest = max(latest, m.High)
			t.del(format.AppendClockKey(nil, m.Position))
		}
	}
	t.remark(t.marks, latest)
}

// remark makes marks the ones of the log, and latest the latest reading that counts
// from now on. The indexes by time have to be looked through.
func (t *tx) remark(marks []format.ClockMark, latest int64) {
	t.marks, t.latest, t.remarked = marks, latest, true
	t.leaveVoid()
	t.set([]byte{format.TagClock}, nil)
	t.l.heads.clear() // their expiries are others now
	t.onPublish(func() {
		t.l.marks.Store(&marks)
		t.l.latest.Store(latest)
		t.l.moving = moving{pending: true}
		t.l.unmoved.Store(true)
		t.l.sweeper.poke()
	})
}

// upgrade raises the format of the directory before the first byte that needs it.
func (l *Log) upgrade() error {
	if l.dir.format >= format.Clocked {
		return nil
	}
	err := l.dir.upgrade(format.Clocked)
	if err != nil && !l.upgradeFailed {
		l.upgradeFailed = true
		l.opts.Logger.Error("the clock was set back, which cannot be noted: the log's format cannot be raised", "error", err)
	}
	return err
}

// keptClock returns what a record of the tx keeps as its clock, unix ns: 0 for what
// its time says, or if the log's format has no place for it.
func (t *tx) keptClock() int64 {
	if t.l.dir.format < format.Clocked {
		return 0
	}
	return t.now
}

// ghostPosition tells a ghost written since the marks from those before them. A ghost has
// no position of its own.
func (t *tx) ghostPosition() uint64 {
	if len(t.marks) == 0 {
		return 0
	}
	return t.next
}

// loadClock reads the marks at open. latest is the reading at the newest commit.
func (l *Log) loadClock(latest int64) error {
	var marks []format.ClockMark
	err := l.walk(format.TagClock, func(k, v []byte) error {
		if len(k) == 1 {
			l.moving.pending = true
			l.unmoved.Store(true)
			return nil
		}
		m, err := format.DecodeClockMark(k, v)
		if err != nil || len(marks) > 0 && m.Clock <= marks[len(marks)-1].Clock {
			return fmt.Errorf("clock mark %x: %w", k, format.ErrCorrupt)
		}
		marks = append(marks, m)
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
	return m.now < l.latest.Load()-int64(wallclock.MaxBack) || len(m.marks) < len(l.clockMarks())
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
