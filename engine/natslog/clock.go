package natslog

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// clockState is what the stream says about the clocks of those who wrote to it; see
// [wallclock.Moment]. A mark follows from the frames: one whose clock is behind that of a
// frame before it by more than maxSkew was written after the clock was set back. It is void,
// and forgotten, when the clock has passed its reading again. A frame with a later clock says
// so. A process that sees it by its own clock, and writes only after that was set back once
// more, says it in its frame (frame.passed): else the second time would look like the first.
type clockState struct {
	latest   int64 // the latest reading that counts, unix ns
	marks    []wallclock.Mark
	setBacks uint64
	// passed is the latest reading, unix ns, of marks that this process has found void by its
	// own clock, until a frame says the same. 0: none.
	passed int64
	// proof is the newest frame that made marks void; nil: none. It stays in the stream: who
	// replays it without that frame would take the second set-back for the first.
	proof *unit
}

// maxSkew is by how much the clocks of processes may differ. Less is not taken for a
// clock that was set back.
const maxSkew = time.Minute

// observe takes the clock of the frame f with records into account, before its facts. f came
// with the unit u.
func (s *state) observe(f *frame, u *unit) {
	c := &s.clock
	noticed := c.passed != 0 && c.passed >= f.passed && c.latest < f.passed // also that it came back
	proof := f.passed != 0 && s.pass(f.passed)
	if s.setBack(f.clock) && noticed {
		c.setBacks--
	}
	proof = s.pass(f.clock) || proof
	c.latest = max(c.latest, f.clock)
	if c.passed <= max(f.clock, f.passed) {
		proof = proof || c.passed != 0
		c.passed = 0
	}
	if proof {
		s.release(c.proof)
		c.proof = u.retain()
	}
}

// pass forgets the marks that are void since the clock showed now, and reports whether there
// are any. The latest of their readings counts again.
func (s *state) pass(now int64) bool {
	c := &s.clock
	m := wallclock.Moment{Now: now, Marks: c.marks}
	valid := m.Valid()
	if len(valid) == len(c.marks) {
		return false
	}
	c.latest = max(c.latest, highest(c.marks, valid))
	s.mark(valid)
	return true
}

// highest returns the latest reading of marks that are not among valid.
func highest(marks, valid []wallclock.Mark) (high int64) {
	for _, m := range marks {
		if !slices.Contains(valid, m) {
			high = max(high, m.High)
		}
	}
	return high
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

// mindClockLocked notices, before a frame says so, that the clock was set back, and that it
// has passed the readings of marks.
func (l *Log) mindClockLocked() {
	if l.st.setBack(l.clock.Now()) {
		l.warnSetBack()
	}
	c := &l.st.clock
	m := l.clock.Moment(c.marks)
	if len(m.Marks) == len(c.marks) {
		return
	}
	high := highest(c.marks, m.Marks)
	c.latest, c.passed = max(c.latest, high), max(c.passed, high)
	l.st.mark(m.Marks)
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
