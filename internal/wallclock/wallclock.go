// Package wallclock reads a wall clock and watches it against a monotonic one, for
// engines that decide by it when records expire.
//
// A wall clock can be wrong for a moment: a wrong date set by hand, a faulty time
// server, a virtual machine that was restored. Two rules keep such a moment from
// doing damage:
//
//   - It jumps forward, by more than [MaxJump] between two readings beyond what the
//     monotonic clock went: the jump is held. Records from before the jump are judged
//     as if it had not happened (see [Hold.At]), so that it removes nothing, until
//     [Clock.Accept] or until the clock comes back.
//   - It goes back: that is believed at once, and ends a hold. Engines then see to
//     records that were written at readings which are now in the future.
//
// Smaller steps forward are believed, as are times without a monotonic reading if no
// monotonic clock is given. A Clock may be used from many goroutines.
package wallclock

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// The steps that count as events.
const (
	MaxJump = time.Minute // a larger step forward is held
	MaxBack = time.Second // a larger step back is reported
)

// anchorAge is for how long readings are compared with the same earlier one: a clock
// that is slewed must not add up to a jump.
const anchorAge = time.Second

// Options of a clock.
type Options struct {
	// Now is the wall clock. Default [time.Now].
	Now func() time.Time
	// Monotonic is the time since some fixed moment by a clock that nobody sets.
	// Default: the monotonic readings of Now's times. A Now whose times have none is
	// believed whatever it shows.
	Monotonic func() time.Duration
	// Logger receives one record for each event. Required.
	Logger *slog.Logger
	// Changed is called after each event, from the goroutine that read the clock. It
	// must not block. Nil: nothing is called.
	Changed func()
}

// Clock is a wall clock under watch.
type Clock struct {
	o     Options
	base  time.Time
	state atomic.Pointer[state]
	jumps atomic.Uint64
	backs atomic.Uint64
	mu    sync.Mutex // held while state changes
}

// state is what readings are compared with, and the hold that belongs to those near it. They
// change together: nobody gets a reading of a jump without its hold. It does not change.
type state struct {
	reading
	hold *Hold // nil: no jump is held
}

// reading is what both clocks showed at one moment, in ns.
type reading struct{ wall, mono int64 }

// Hold is a jump that was not accepted, with those before it. A nil Hold is none. It does
// not change.
type Hold struct {
	// Boundary separates readings from before the jump from those after it, unix ns.
	Boundary int64
	// Ahead is by how much the clock jumped in all, ns.
	Ahead int64

	before *Hold // the jumps before this one that are held, too; nil: none
}

// At returns the time, unix ns, at which a record is judged that was written at the
// reading written: now, but without the jumps that it is older than.
func (h *Hold) At(now, written int64) int64 {
	if h == nil || written >= h.Boundary || now < h.Boundary {
		return now
	}
	return h.before.At(now-h.by(), written)
}

// by returns by how much the clock jumped the last time, ns.
func (h *Hold) by() int64 {
	if h.before == nil {
		return h.Ahead
	}
	return h.Ahead - h.before.Ahead
}

// First returns the boundary of the first jump that is held, unix ns: nothing that was
// written before it is judged by now.
func (h *Hold) First() int64 {
	for h.before != nil {
		h = h.before
	}
	return h.Boundary
}

// Trusted returns now, unix ns, without the jump.
func (h *Hold) Trusted(now int64) int64 {
	if h == nil {
		return now
	}
	return now - h.Ahead
}

// New returns a clock. What it shows first is believed.
func New(o Options) *Clock {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Clock{o: o, base: o.Now()}
	c.state.Store(&state{reading: c.read()})
	return c
}

const (
	// together is how far apart the two clocks may be read, that one moment is meant.
	together = time.Second
	// readings is how often it is tried to read them together.
	readings = 100
)

// read returns what both clocks show at one moment. Those of the options are two calls, and
// time may pass between them: that would look like a step.
func (c *Clock) read() reading {
	if c.o.Monotonic == nil {
		t := c.o.Now()
		return reading{t.UnixNano(), int64(t.Sub(c.base))} // by the wall clock if t has no monotonic reading
	}
	for n := 1; ; n++ {
		before := c.o.Monotonic()
		t := c.o.Now()
		if c.o.Monotonic()-before < together || n == readings {
			return reading{t.UnixNano(), int64(before)}
		}
	}
}

// Now reads the wall clock, unix ns, and notices steps.
func (c *Clock) Now() int64 {
	now, _ := c.look()
	return now
}

// look returns a reading of the wall clock, unix ns, and the hold that belongs to it, nil if
// there is none: that of a jump which the reading leads to, too.
func (c *Clock) look() (int64, *Hold) {
	for n := 1; ; n++ {
		r := c.read()
		s := c.state.Load()
		if d := r.drift(s.reading); d < int64(MaxJump) && d > -int64(MaxBack) && r.mono-s.mono < int64(anchorAge) {
			return r.wall, s.hold
		}
		if s, ok := c.observe(r); ok || n == readings {
			return r.wall, s.hold
		}
	}
}

// drift returns by how much the wall clock went further than the monotonic one since a.
func (r reading) drift(a reading) int64 { return (r.wall - a.wall) - (r.mono - a.mono) }

// observe compares r with the reading of the state, which it becomes. It returns the state
// that follows, or false if another goroutine has read the clocks later.
func (c *Clock) observe(r reading) (*state, bool) {
	c.mu.Lock()
	s := c.state.Load()
	if r.mono < s.mono {
		c.mu.Unlock()
		return s, false
	}
	d := r.drift(s.reading)
	s = &state{reading: r, hold: s.hold}
	event := true
	switch {
	case d > int64(MaxJump):
		s.hold = c.jumpLocked(r, d, s.hold)
	case d < -int64(MaxBack):
		s.hold = c.backLocked(r, -d, s.hold)
	default:
		event = false
	}
	c.state.Store(s)
	c.mu.Unlock()
	if event && c.o.Changed != nil {
		c.o.Changed()
	}
	return s, true
}

// jumpLocked returns the hold after a jump by d, with the one before.
func (c *Clock) jumpLocked(r reading, d int64, old *Hold) *Hold {
	c.jumps.Add(1)
	h := &Hold{Boundary: r.wall - d/2, Ahead: d, before: old}
	if old != nil {
		h.Ahead += old.Ahead
	}
	c.o.Logger.Warn("the clock jumped forward: nothing expires by the jump until it is accepted (mainstem clock accept) or the log is opened again",
		"by", time.Duration(d), "held", time.Duration(h.Ahead), "now", time.Unix(0, r.wall).UTC())
	return h
}

// backLocked returns what is left of a hold when the clock went back by d: the last jumps are
// the first to be undone.
func (c *Clock) backLocked(r reading, d int64, h *Hold) *Hold {
	c.backs.Add(1)
	if h == nil {
		return nil
	}
	for rest := d; h != nil && rest > 0; h = h.before {
		if left := h.by() - rest; left > int64(MaxJump) {
			h = &Hold{Boundary: r.wall - left/2, Ahead: h.Ahead - rest, before: h.before}
			break
		}
		rest -= h.by()
	}
	left := int64(0)
	if h != nil {
		left = h.Ahead
	}
	c.o.Logger.Warn("the clock that had jumped forward came back", "by", time.Duration(d), "held", time.Duration(left), "now", time.Unix(0, r.wall).UTC())
	return h
}

// Hold returns the jump that is held, nil if there is none. [Clock.Moment] returns the one
// that belongs to a reading.
func (c *Clock) Hold() *Hold { return c.state.Load().hold }

// Accept ends a hold: the wall clock is believed. It returns by how much the clock had
// jumped, 0 if nothing was held.
func (c *Clock) Accept() time.Duration {
	c.Now()
	c.mu.Lock()
	s := c.state.Load()
	h := s.hold
	c.state.Store(&state{reading: s.reading})
	c.mu.Unlock()
	if h == nil {
		return 0
	}
	c.o.Logger.Warn("the clock was accepted: what it says is over expires now", "held", time.Duration(h.Ahead))
	if c.o.Changed != nil {
		c.o.Changed()
	}
	return time.Duration(h.Ahead)
}

// Events returns how often the clock jumped forward and how often it went back.
func (c *Clock) Events() (jumps, backs uint64) { return c.jumps.Load(), c.backs.Load() }
