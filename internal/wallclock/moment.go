package wallclock

import (
	"math"
	"slices"
	"sort"
)

// Mark says that the clock was found to be set back. Records up to Position whose readings
// of the clock are later than Clock were written while it was ahead; they count as written
// at Clock.
type Mark struct {
	Position uint64
	High     int64 // the latest reading before, unix ns
	Clock    int64 // the reading then, unix ns
}

// Moment is the time of one read or one commit, with what it takes to compare records
// with it. It does not change.
//
// A log has two times. The time of a record never decreases with its position: while
// the clock is behind the newest record, records get that record's time. What expires
// is judged by the clock itself: a record's time to live and its age count from the
// reading at its commit.
//
// When the clock is found behind the latest reading that was written, records were
// written while it was ahead. A mark is kept with the position and the reading then:
// records up to there with later readings count as written at that reading, so their
// times to live run out after it is known to be wrong, and not when the wrong reading
// comes to pass. A mark is void once the clock has passed the latest reading again: the
// clock had been right, or it no longer matters.
type Moment struct {
	Now   int64  // unix ns
	Marks []Mark // by position, and so by Clock
	Hold  *Hold
}

// Moment returns the present, with marks, which must have been read before: those of a
// clock that went back must not be applied to the reading before it did.
func (c *Clock) Moment(marks []Mark) Moment {
	m := Moment{Marks: marks}
	m.Now, m.Hold = c.look()
	m.Marks = m.Valid()
	return m
}

// Valid returns the marks without those whose latest reading the clock has passed, unless it
// did so by a jump that nobody has accepted.
func (m *Moment) Valid() []Mark {
	void := func(mark Mark) bool { return mark.High <= m.Now }
	if m.Hold == nil && slices.ContainsFunc(m.Marks, void) {
		return slices.DeleteFunc(slices.Clone(m.Marks), void)
	}
	return m.Marks
}

// Rebase returns the reading and the expiry (0: never), unix ns, that count for a record
// written at the reading clock. Doing it twice changes nothing.
func (m *Moment) Rebase(position uint64, clock, expires int64) (int64, int64) {
	if len(m.Marks) == 0 {
		return clock, expires
	}
	i := sort.Search(len(m.Marks), func(i int) bool { return m.Marks[i].Position >= position })
	if i == len(m.Marks) || clock <= m.Marks[i].Clock {
		return clock, expires
	}
	if expires != 0 && expires != math.MaxInt64 {
		expires -= clock - m.Marks[i].Clock
	}
	return m.Marks[i].Clock, expires
}

// Over reports whether what was written at a reading of the clock, and expires at
// expires (0: never) or when it is older than maxAge (0: never), is over. All in ns,
// after Rebase.
func (m *Moment) Over(clock, expires, maxAge int64) bool {
	now := m.Hold.At(m.Now, clock)
	return expires != 0 && expires <= now || TooOld(clock, now, maxAge)
}

// Due returns up to when, unix ns, entries of indexes by time are due.
func (m *Moment) Due() int64 { return m.Hold.Trusted(m.Now) }

// SetBack returns marks with a new one, which takes in those with readings as late as its
// own. The new mark is the last. marks does not change.
func SetBack(marks []Mark, mark Mark) []Mark {
	out := make([]Mark, 0, len(marks)+1)
	for _, m := range marks {
		if m.Clock < mark.Clock && m.Position < mark.Position {
			out = append(out, m)
			continue
		}
		mark.High, mark.Clock = max(mark.High, m.High), min(mark.Clock, m.Clock)
	}
	return append(out, mark)
}
