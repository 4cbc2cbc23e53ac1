package enginetest

import (
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// Features declares what an engine offers beyond what every engine must, and
// gives the suite the handles it needs to prove it. It both selects cases and
// changes what is demanded: an engine must refuse with Unsupported what it does
// not offer, because ignoring it silently would be worse, and it must declare
// every optional interface that it implements.
type Features struct {
	// Truncate, Rewrite, Remove and Forget are the operations of those names.
	Truncate bool // [mainstem.OpTruncate]
	Rewrite  bool // [mainstem.OpRewrite]
	Remove   bool // [mainstem.OpRemove]
	Forget   bool // [mainstem.OpForget]

	Expiry   bool // [mainstem.Write.TTL]
	MaxAge   bool // [mainstem.Policy.MaxAge]
	MaxBytes bool // [mainstem.Policy.MaxBytes]

	Snapshot bool // the log is a [mainstem.Snapshotter]
	Check    bool // the log is a [mainstem.Checker]; every case ends with a check
	// ClockKeeper: the log is a [mainstem.ClockKeeper]. With a Clock, its Monotonic is what
	// the log watches it by.
	ClockKeeper bool

	// Reopen opens again, after the suite has closed it, the store of log. Nil
	// means that nothing outlives Close, and leaves out law 3. See [InDirectory].
	Reopen func(t *testing.T, log mainstem.Log) mainstem.Log
	// Restore opens a new log from a backup. Nil means that the log is no
	// [mainstem.Backuper].
	Restore func(t *testing.T, backup io.Reader) mainstem.Log

	// Clock is the clock that every log of open reads the time from. Nil means that
	// the engine keeps its own time: then cases of Expiry and MaxAge wait for real.
	Clock *Clock
	// SteadyClock leaves steps of the wall clock out of random programs: the engine does not
	// take every step back by more than a second for one, or is slower to say what a wrong
	// clock means for records.
	SteadyClock bool
	// Limits are those of the engine under test; zero fields mean the defaults. An
	// engine whose limits can be set is tested faster with small ones.
	Limits mainstem.Limits

	// Patience is how long the suite waits for what must happen soon, such as the
	// waking of a follower, before it calls it broken. Default 10s.
	Patience time.Duration
	// Programs is how many random programs [RunPrograms] runs, Steps how long each
	// is. Defaults 60 and 60; a quarter of the programs under -short. Seed begins the
	// series; 0 means a new one each time. A failure prints the seed to use here.
	Programs, Steps int
	Seed            uint64
}

// All returns Features with everything declared that needs no handle: set the
// handles, and false what the engine does not offer.
func All() Features {
	return Features{
		Truncate: true, Rewrite: true, Remove: true, Forget: true,
		Expiry: true, MaxAge: true, MaxBytes: true,
		Snapshot: true, Check: true, ClockKeeper: true,
	}
}

func (f Features) withDefaults() Features {
	f.Limits = f.Limits.WithDefaults()
	if f.Patience == 0 {
		f.Patience = 10 * time.Second
	}
	if f.Programs == 0 {
		f.Programs = 60
	}
	if f.Steps == 0 {
		f.Steps = 60
	}
	return f
}

// need is a set of features.
type need uint

const (
	needTruncate need = 1 << iota
	needRewrite
	needRemove
	needForget
	needExpiry
	needMaxAge
	needMaxBytes
	needSnapshot
	needCheck
	needReopen
	needRestore
	needClock
	needClockKeeper
)

var needNames = [...]string{"Truncate", "Rewrite", "Remove", "Forget", "Expiry", "MaxAge", "MaxBytes", "Snapshot", "Check", "Reopen", "Restore", "Clock", "ClockKeeper"}

func (n need) String() string {
	var out []string
	for i, name := range needNames {
		if n&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}

// has returns the features that f declares.
func (f Features) has() need {
	var n need
	for i, on := range []bool{f.Truncate, f.Rewrite, f.Remove, f.Forget, f.Expiry, f.MaxAge, f.MaxBytes,
		f.Snapshot, f.Check, f.Reopen != nil, f.Restore != nil, f.Clock != nil, f.ClockKeeper} {
		if on {
			n |= 1 << i
		}
	}
	return n
}

// Clock is a wall clock, and a monotonic one, that move only when they are told to. Its
// zero value is not useful: call [NewClock]. Many goroutines may use it.
type Clock struct{ clock testkit.Clock }

// NewClock returns a clock that stands at the present.
func NewClock() *Clock {
	c := new(Clock)
	c.clock.Set(time.Now().Round(0))
	return c
}

// Now returns the clock's time. Give it to the engine's options.
func (c *Clock) Now() time.Time { return c.clock.Now() }

// Monotonic returns the time that has passed since NewClock, whatever the wall clock was
// set to. Give it to the engine's options if the log is a [mainstem.ClockKeeper].
func (c *Clock) Monotonic() time.Duration { return c.clock.Monotonic() }

// Advance lets d go by on both clocks.
func (c *Clock) Advance(d time.Duration) { c.clock.Advance(d) }

// Set moves the wall clock by d, forward or back, while a nanosecond goes by on both: the
// monotonic clock tells a reading from before from one after it.
func (c *Clock) Set(d time.Duration) { c.clock.Leap(d) }

// InDirectory turns a function that opens a log in a directory into the two
// that the suite asks for: open uses a new directory for each log, reopen the
// directory of the log that it is given.
func InDirectory(at func(t *testing.T, dir string) mainstem.Log) (open func(t *testing.T) mainstem.Log, reopen func(t *testing.T, log mainstem.Log) mainstem.Log) {
	var dirs sync.Map // mainstem.Log -> string
	remember := func(log mainstem.Log, dir string) mainstem.Log {
		dirs.Store(log, dir)
		return log
	}
	open = func(t *testing.T) mainstem.Log {
		t.Helper()
		dir := t.TempDir()
		return remember(at(t, dir), dir)
	}
	reopen = func(t *testing.T, log mainstem.Log) mainstem.Log {
		t.Helper()
		dir, ok := dirs.LoadAndDelete(log)
		if !ok {
			t.Fatalf("reopen: this log was not opened by the function that InDirectory returned")
		}
		return remember(at(t, dir.(string)), dir.(string))
	}
	return open, reopen
}
