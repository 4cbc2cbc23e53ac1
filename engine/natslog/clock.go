package natslog

import (
	"context"
	"math"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// clockState is what the stream says about the clocks of those who wrote to it; see
// [wallclock.Moment]. A mark follows from the frames: one whose clock is behind that of a
// frame before it by more than maxSkew was written after the clock was set back. It is void,
// and forgotten, when a frame comes whose clock has passed the latest reading again.
type clockState struct {
	latest   int64 // the latest reading that counts
	marks    []wallclock.Mark
	setBacks uint64
}

// maxSkew is by how much the clocks of processes may differ. Less is not taken for a
// clock that was set back.
const maxSkew = time.Minute

// observe takes the clock of a frame with records into account, before its facts.
func (s *state) observe(f *frame) {
	s.setBack(f.clock)
	c := &s.clock
	c.latest = max(c.latest, f.clock)
	for i := range c.marks {
		if c.marks[i].High <= f.clock {
			m := wallclock.Moment{Now: f.clock, Marks: c.marks}
			s.mark(m.Valid())
			return
		}
	}
}

// setBack adds a mark if the clock shows now and was ahead before, and reports whether.
func (s *state) setBack(now int64) bool {
	c := &s.clock
	if c.latest-now <= int64(maxSkew) {
		return false
	}
	marks := wallclock.SetBack(c.marks, wallclock.Mark{Position: s.head, High: c.latest, Clock: now})
	c.latest = now
	c.setBacks++
	s.mark(marks)
	return true
}

// mark replaces the marks. Records expire at other times then.
func (s *state) mark(marks []wallclock.Mark) {
	s.clock.marks = marks
	old := s.expiring
	s.expiring = make(expiring, 0, len(old))
	for _, r := range old {
		if !r.dead {
			r.due = s.clock.due(r)
			s.expiring.push(r)
		}
	}
}

// due returns when r expires by the marks.
func (c *clockState) due(r *record) int64 {
	m := wallclock.Moment{Now: math.MinInt64, Marks: c.marks}
	_, expires := m.Rebase(r.pos, r.clock, r.expires)
	return expires
}

// restated takes a record into account whose first frame may be gone, and with it the mark.
func (c *clockState) restated(r *record) {
	m := wallclock.Moment{Now: math.MinInt64, Marks: c.marks}
	clock, _ := m.Rebase(r.pos, r.clock, 0)
	c.latest = max(c.latest, clock)
}

// nowLocked returns the present, that reads and commits go by.
func (l *Log) nowLocked() wallclock.Moment {
	m := l.clock.Moment(l.st.clock.marks)
	if behind := l.st.clock.latest - m.Now; behind > 0 && behind <= int64(wallclock.MaxBack) {
		m.Now = l.st.clock.latest
	}
	return m
}

// mindClockLocked notices a clock that was set back before a frame says so.
func (l *Log) mindClockLocked() {
	if l.st.setBack(l.clock.Now()) {
		l.warnSetBack()
	}
}

func (l *Log) warnSetBack() {
	marks := l.st.clock.marks
	mark := marks[len(marks)-1]
	l.opts.Logger.Warn("the clock was set back: records written while it was ahead expire as if they were written now",
		"stream", l.opts.Stream, "was", wall(mark.High), "now", wall(mark.Clock), "position", mark.Position)
}

// Clock implements [mainstem.ClockKeeper]. It describes the clock of this process: each
// process that has the log open watches its own.
func (l *Log) Clock(ctx context.Context) (mainstem.ClockState, error) {
	if err := l.ready(ctx, "clock"); err != nil {
		return mainstem.ClockState{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mindClockLocked()
	m := l.nowLocked()
	jumps, _ := l.clock.Events()
	s := mainstem.ClockState{Now: wall(m.Now), Jumps: jumps, SetBacks: l.st.clock.setBacks - l.setBacks}
	if m.Hold != nil {
		s.Held = time.Duration(m.Hold.Ahead)
	}
	if l.st.time > m.Now {
		s.TimesAhead = time.Duration(l.st.time - m.Now)
	}
	return s, nil
}

// AcceptClock implements [mainstem.ClockKeeper], for this process. What has expired by the
// clock is removed by the next sweep.
func (l *Log) AcceptClock(ctx context.Context) (mainstem.ClockState, error) {
	s, err := l.Clock(ctx)
	if err == nil {
		l.clock.Accept()
	}
	return s, err
}
