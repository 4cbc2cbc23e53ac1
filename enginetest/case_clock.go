package enginetest

import (
	"context"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
)

var clockCases = []testCase{
	{name: "clock comes back", needs: needExpiry | needMaxAge | needClock, run: func(e *env) { clockComesBack(e, false) },
		promise: "A clock that was ahead for a moment does not hold expiry up, and removes nothing that was written before or afterwards too early."},
	{name: "clock comes back between openings", needs: needExpiry | needMaxAge | needClock | needReopen, run: func(e *env) { clockComesBack(e, true) },
		promise: "What a log knows of a clock that was ahead outlives a restart."},
	{name: "clock jumps forward", needs: needExpiry | needMaxAge | needClock | needClockKeeper, run: clockJumps,
		promise: "A clock that jumps forward while the log is open removes nothing by the jump until it is accepted."},
	{name: "clock jumps forward and back", needs: needExpiry | needMaxAge | needClock | needClockKeeper, run: clockJumpsBack,
		promise: "A jump that was not accepted leaves nothing behind when the clock comes back."},
	{name: "clock wrongly back", needs: needExpiry | needClock | needClockKeeper, run: clockWronglyBack,
		promise: "What was written before a clock was wrongly set back does not expire too early when it is right again."},
}

const year = 365 * 24 * time.Hour

// clockSpaces creates the spaces of the cases: one of each kind, and two in which records
// get old.
func (e *env) clockSpaces() {
	e.Helper()
	e.inEvery(func(string, mainstem.Policy) {})
	e.space("aged", mainstem.Policy{MaxAge: time.Hour})
	e.space("aged1", mainstem.Policy{MaxAge: time.Hour, History: 1})
}

// aged are the spaces in which records get old; times to live are only in the others.
var aged = map[string]bool{"aged": true, "aged1": true}

// live puts key to all spaces, in one batch, with a time to live where records do not get
// old. Times must not decrease.
func (e *env) live(key string, ttl time.Duration) {
	e.Helper()
	before := e.newest()
	r := e.commit(func(b *mainstem.Batch) {
		for s := range policies {
			b.Add(mainstem.Write{Space: s, Key: []byte(key), Value: []byte("v"), TTL: ttl})
		}
		for s := range aged {
			b.Put(s, []byte(key), []byte("v"))
		}
	})
	if r.Time.Before(before) {
		e.Fatalf("the time of position %d is %v, that of the one before %v", r.First, r.Time, before)
	}
}

// newest returns the time of the newest record of the feed.
func (e *env) newest() (last time.Time) {
	e.Helper()
	for _, r := range e.feed(mainstem.Filter{}) {
		last = r.Time
	}
	return last
}

// sees checks which keys of live are there, in the spaces where records get old or in the
// others, for reads and conditions, before and after a sweep.
func (e *env) sees(when string, old bool, want ...string) {
	e.Helper()
	e.looks(when, old, want)
	e.sweep()
	e.looks(when+", after a sweep", old, want)
}

func (e *env) looks(when string, old bool, want []string) {
	e.Helper()
	for _, s := range clockSpaceNames(old) {
		if err := e.look(s, want); err != nil {
			e.Fatalf("%s: %v", when, err)
		}
	}
}

func clockSpaceNames(old bool) (names []string) {
	if old {
		return []string{"aged", "aged1"}
	}
	for s := range policies {
		names = append(names, s)
	}
	return names
}

// look returns an error unless the live keys of a space are those of want.
func (e *env) look(space string, want []string) error {
	e.Helper()
	var keys []string
	for _, r := range e.scan(space, mainstem.Range{}) {
		keys = append(keys, string(r.Key))
	}
	if fmt.Sprint(keys) != fmt.Sprint(want) {
		return fmt.Errorf("in %s a scan sees %v, want %v", space, keys, want)
	}
	if p, ok := policies[space]; ok && !p.NoFeed || !ok {
		if fed := live(e.feed(mainstem.Filter{Spaces: []string{space}})); len(fed) != len(want) {
			return fmt.Errorf("the feed of %s has %v, want %v", space, briefs(fed), want)
		}
	}
	for _, key := range want {
		if got := e.get(space, key); string(got.Value) != "v" {
			return fmt.Errorf("in %s %s is %s", space, key, full(got))
		}
		b := mainstem.NewBatch()
		b.IfExists(space, []byte(key))
		if _, err := e.attempt(b); err != nil {
			return fmt.Errorf("in %s a batch that wants %s: %w", space, key, err)
		}
	}
	return nil
}

// soon is sees for what may take the engine a sweep.
func (e *env) soon(when string, old bool, want ...string) {
	e.Helper()
	for _, s := range clockSpaceNames(old) {
		e.eventually(when, func() error { return e.look(s, want) })
	}
	e.sees(when, old, want...)
}

// setClock moves the wall clock. With reopen that happens while the log is closed.
func (e *env) setClock(d time.Duration, reopen bool) {
	e.Helper()
	if !reopen {
		e.f.Clock.Set(d)
		return
	}
	if err := e.closed(); err != nil {
		e.Fatalf("close before the clock is set: %v", err)
	}
	e.f.Clock.Set(d)
	e.log = e.reopen(e.log)
}

func clockComesBack(e *env, reopen bool) {
	e.clockSpaces()
	e.setClock(year, reopen)
	e.live("ahead", 2*time.Second)
	e.setClock(-year, reopen)
	e.live("later", time.Second)
	e.live("long", time.Hour)
	e.sees("at once", false, "ahead", "later", "long")
	e.pass(time.Second - 1)
	e.sees("before a second has passed", false, "ahead", "later", "long")
	e.pass(1)
	e.sees("after a second", false, "ahead", "long")
	e.pass(time.Second)
	e.soon("after two seconds", false, "long")
	e.sees("after two seconds", true, "ahead", "later", "long")
	if reopen {
		e.restart()
	}
	e.live("new", time.Second)
	e.pass(time.Second)
	e.sees("after three seconds", false, "long")
	e.pass(time.Hour)
	e.soon("after an hour", false)
	e.soon("after an hour", true)
}

func clockJumps(e *env) {
	e.clockSpaces()
	defer e.f.Clock.Set(-year)
	e.live("a", 30*time.Minute)
	e.pass(10 * time.Minute)
	e.setClock(year, false)
	e.sees("after the jump", false, "a")
	e.sees("after the jump", true, "a")
	e.live("b", 30*time.Minute)
	e.sees("after a write", false, "a", "b")
	if s := e.clockState(mainstem.ClockKeeper.Clock); s.Held < year-time.Minute || s.Held > year+time.Minute || s.Jumps == 0 {
		e.Fatalf("after a jump by %v the clock is %+v", year, s)
	}
	if s := e.clockState(mainstem.ClockKeeper.AcceptClock); s.Held < year-time.Minute {
		e.Fatalf("accepting the clock returned %+v, want the state before", s)
	}
	e.soon("after it was accepted", false, "b")
	e.soon("after it was accepted", true, "b")
	if s := e.clockState(mainstem.ClockKeeper.Clock); s.Held != 0 {
		e.Fatalf("after it was accepted the clock is %+v", s)
	}
	e.pass(30 * time.Minute)
	e.sees("30 minutes later", false)
	e.sees("30 minutes later", true, "b")
}

func clockJumpsBack(e *env) {
	e.clockSpaces()
	e.live("a", 30*time.Minute)
	e.pass(10 * time.Minute)
	e.setClock(year, false)
	e.live("b", 30*time.Minute)
	e.sees("after the jump", false, "a", "b")
	e.setClock(-year, false)
	e.sees("after it came back", false, "a", "b")
	e.live("c", 10*time.Minute)
	e.pass(10 * time.Minute)
	e.sees("10 minutes later", false, "a", "b")
	e.pass(10 * time.Minute)
	e.soon("20 minutes later", false, "b")
	e.pass(10 * time.Minute)
	e.soon("30 minutes later", false)
	e.sees("30 minutes later", true, "a", "b", "c")
	e.pass(40 * time.Minute)
	e.soon("70 minutes later", true)
	if s := e.clockState(mainstem.ClockKeeper.Clock); s.Held != 0 || s.SetBacks == 0 || s.TimesAhead < year-3*time.Hour {
		e.Fatalf("in the end the clock is %+v", s)
	}
}

func clockWronglyBack(e *env) {
	e.clockSpaces()
	e.live("a", 30*time.Minute)
	e.setClock(-2*time.Hour, false)
	e.sees("while it is behind", false, "a")
	e.pass(5 * time.Minute)
	e.sees("while it is behind", false, "a")
	e.setClock(2*time.Hour, false)
	e.sees("when it is right again", false, "a")
	e.clockState(mainstem.ClockKeeper.AcceptClock)
	e.sees("when it is accepted", false, "a")
	e.pass(20 * time.Minute)
	e.sees("after 25 minutes", false, "a")
	e.pass(5 * time.Minute)
	e.soon("after 30 minutes", false)
}

// clockState asks the log for the state of its clock.
func (e *env) clockState(ask func(mainstem.ClockKeeper, context.Context) (mainstem.ClockState, error)) mainstem.ClockState {
	e.Helper()
	s, err := ask(e.log.(mainstem.ClockKeeper), e.ctx)
	if err != nil {
		e.Fatalf("the clock: %v", err)
	}
	return s
}
