package pebblelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

const year = 365 * 24 * time.Hour

// clocks are a wall clock that can be set and a monotonic one.
type clocks struct{ both *enginetest.Clock }

func newClocks() clocks { return clocks{enginetest.NewClock()} }

func (c clocks) now() time.Time           { return c.both.Now() }
func (c clocks) monotonic() time.Duration { return c.both.Monotonic() }
func (c clocks) set(d time.Duration)      { c.both.Set(d) }

// pass lets time go by on both.
func (c clocks) pass(d time.Duration) { c.both.Advance(d) }

// clocked is a log in a directory whose clocks are in the hand of the test.
type clocked struct {
	*testing.T
	clocks
	*pebblelog.Log
	dir     string
	options pebblelog.Options
	out     testkit.Lines
	last    time.Time // of the newest receipt
}

func openClocked(t *testing.T) *clocked {
	c := &clocked{T: t, clocks: newClocks(), dir: t.TempDir()}
	c.options = pebblelog.Options{Now: c.now, Monotonic: c.monotonic, Logger: c.out.Logger()}
	c.reopen()
	for name, p := range map[string]mainstem.Policy{
		"one": {History: 1}, "quiet": {History: 1, NoFeed: true}, "few": {History: 3}, "all": {},
		"hour": {MaxAge: time.Hour}, "hour-one": {History: 1, MaxAge: time.Hour},
	} {
		c.must(c.CreateSpace(t.Context(), name, p))
	}
	t.Cleanup(func() {
		n, err := c.Check(context.Background(), func(p mainstem.Problem) { t.Errorf("check: %s: %s", p.Where, p.What) })
		if err != nil {
			t.Errorf("check: %+v, %v", n, err)
		}
		c.Log.Close()
	})
	return c
}

func (c *clocked) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *clocked) reopen() {
	c.Helper()
	if c.Log != nil {
		c.must(c.Log.Close())
	}
	var err error
	c.Log, err = pebblelog.Open(c.dir, &c.options)
	c.must(err)
}

// ttlSpaces are those in which records live as long as they say.
var ttlSpaces = []string{"one", "quiet", "few", "all"}

// put writes key with a time to live to ttlSpaces, and without one to the others.
func (c *clocked) put(key string, ttl time.Duration) {
	c.Helper()
	b := mainstem.NewBatch()
	for _, s := range ttlSpaces {
		b.Add(mainstem.Write{Space: s, Key: []byte(key), Value: []byte(key), TTL: ttl})
	}
	b.Put("hour", []byte(key), []byte(key))
	b.Put("hour-one", []byte(key), []byte(key))
	r, err := c.Commit(c.Context(), b)
	c.must(err)
	if r.Time.Before(c.last) {
		c.Fatalf("the time of position %d is %s, before %s", r.First, r.Time, c.last)
	}
	c.last = r.Time
}

// sees checks which of the keys are there for every reader and every condition.
func (c *clocked) sees(spaces []string, when string, want ...string) {
	c.Helper()
	for _, s := range spaces {
		var got []string
		for r, err := range c.Scan(c.Context(), s, mainstem.Range{}) {
			c.must(err)
			got = append(got, string(r.Key))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			c.Fatalf("%s: in %s a scan sees %v, want %v", when, s, got, want)
		}
		for _, key := range got {
			if _, err := c.Get(c.Context(), s, []byte(key)); err != nil {
				c.Fatalf("%s: in %s: get %s: %v", when, s, key, err)
			}
			b := mainstem.NewBatch()
			b.IfAbsent(s, []byte(key))
			if _, err := c.Commit(c.Context(), b); !errors.Is(err, mainstem.ErrConflict) {
				c.Fatalf("%s: in %s: a batch that wants %s absent: %v, want a conflict", when, s, key, err)
			}
		}
		if s != "quiet" {
			got = got[:0]
			for r, err := range c.Feed(c.Context(), mainstem.Filter{Spaces: []string{s}}) {
				c.must(err)
				if r.Live() {
					got = append(got, string(r.Key))
				}
			}
			if len(got) != len(want) {
				c.Fatalf("%s: the feed of %s has %v, want %v", when, s, got, want)
			}
		}
	}
}

// holds sweeps and checks how many records each space holds.
func (c *clocked) holds(spaces []string, when string, keys int64) {
	c.Helper()
	c.must(c.Sweep(c.Context()))
	for _, s := range spaces {
		info, err := c.Space(c.Context(), s)
		c.must(err)
		if s == "quiet" && info.Records != keys || info.Keys < keys {
			c.Fatalf("%s: %s holds %d records of %d keys, want %d keys", when, s, info.Records, info.Keys, keys)
		}
	}
}

var agedSpaces = []string{"hour", "hour-one"}

// TestClockComesBack has a clock that is a year ahead for a moment, with records
// written before, meanwhile and afterwards.
func TestClockComesBack(t *testing.T) {
	for _, reopens := range []bool{false, true} {
		t.Run(fmt.Sprint("reopens=", reopens), func(t *testing.T) {
			c := openClocked(t)
			reopen := func() {
				if reopens {
					c.reopen()
				}
			}
			if reopens { // a jump between two openings is believed
				c.must(c.Log.Close())
				c.set(year)
				c.Log = nil
				c.reopen()
			} else {
				c.set(year)
			}
			c.put("ahead", 30*time.Minute)
			reopen()
			c.set(-year)
			c.must(c.Sweep(t.Context()))
			c.pass(20 * time.Minute)
			reopen()
			c.put("later", 30*time.Minute)
			c.sees(ttlSpaces, "20 minutes after the clock came back", "ahead", "later")
			c.sees(agedSpaces, "20 minutes after the clock came back", "ahead", "later")
			c.pass(15 * time.Minute)
			c.sees(ttlSpaces, "35 minutes after", "later")
			c.holds([]string{"quiet"}, "35 minutes after", 1)
			reopen()
			c.pass(20 * time.Minute)
			c.sees(ttlSpaces, "55 minutes after")
			c.holds([]string{"quiet"}, "55 minutes after", 0)
			c.sees(agedSpaces, "55 minutes after", "ahead", "later")
			c.pass(10 * time.Minute)
			c.sees(agedSpaces, "65 minutes after", "later")
			reopen()
			c.pass(20 * time.Minute)
			c.sees(agedSpaces, "85 minutes after")
			c.must(c.Sweep(t.Context()))
			if info, err := c.Space(t.Context(), "hour"); err != nil || info.Records != 0 {
				t.Fatalf("85 minutes after, hour holds %d records, %v", info.Records, err)
			}
			s, err := c.Clock(t.Context())
			if err != nil || s.Held != 0 || s.TimesAhead < year-2*time.Hour {
				t.Fatalf("the clock is %+v, %v", s, err)
			}
			if n := c.out.Count("the clock was set back"); n != 1 {
				t.Fatalf("it was logged %d times:\n%s", n, c.out.String())
			}
			// A year later all is as it was.
			c.pass(year)
			c.put("new", time.Minute)
			if s, err = c.Clock(t.Context()); err != nil || s.TimesAhead != 0 {
				t.Fatalf("a year later the clock is %+v, %v", s, err)
			}
			c.pass(time.Minute)
			c.sees(ttlSpaces, "a year and a minute later")
		})
	}
}

// TestClockComesBackUnseen has nothing but reads after the clock came back.
func TestClockComesBackUnseen(t *testing.T) {
	c := openClocked(t)
	c.options.SweepEvery = 10 * time.Millisecond
	c.set(year)
	c.put("ahead", time.Second)
	c.reopen()
	c.set(-year)
	c.pass(time.Second)
	testkit.Succeeds(t, "the clock is noticed", func() error {
		s, err := c.Clock(t.Context())
		if err == nil && s.SetBacks == 0 {
			err = errors.New("not yet")
		}
		return err
	})
	c.pass(time.Second)
	testkit.Succeeds(t, "the record expires", func() error {
		if r, err := c.Get(t.Context(), "one", []byte("ahead")); err == nil {
			return fmt.Errorf("it expires at %s, it is %s", r.Expires, c.now())
		}
		return nil
	})
}

// TestForwardJump has a clock that jumps ahead by more than a minute.
func TestForwardJump(t *testing.T) {
	for _, end := range []string{"accept", "reopen", "back", "wait"} {
		t.Run(end, func(t *testing.T) {
			c := openClocked(t)
			c.put("a", 30*time.Minute)
			c.pass(10 * time.Minute)
			c.set(59 * time.Second) // believed
			c.set(year)
			c.sees(ttlSpaces, "after the jump", "a")
			c.sees(agedSpaces, "after the jump", "a")
			c.holds(ttlSpaces, "after the jump", 1)
			c.put("b", 30*time.Minute)
			c.holds(ttlSpaces, "after a write", 2)
			c.sees(ttlSpaces, "after a write", "a", "b")
			s, err := c.Clock(t.Context())
			if err != nil || s.Held < year || s.Jumps != 1 {
				t.Fatalf("the clock is %+v, %v", s, err)
			}
			if n := c.out.Count("the clock jumped forward"); n != 1 {
				t.Fatalf("it was logged %d times:\n%s", n, c.out.String())
			}
			switch end {
			case "accept":
				s, err := c.AcceptClock(t.Context())
				if err != nil || s.Held < year {
					t.Fatalf("accepting said %+v, %v", s, err)
				}
				c.sees(ttlSpaces, "after it was accepted", "b")
				c.sees(agedSpaces, "after it was accepted", "b")
				c.must(c.Sweep(t.Context()))
				c.holds([]string{"quiet"}, "after it was accepted", 1)
			case "reopen":
				c.reopen()
				c.sees(ttlSpaces, "after opening it again", "b")
				c.sees(agedSpaces, "after opening it again", "b")
			case "back":
				c.set(-year)
				c.must(c.Sweep(t.Context()))
				c.sees(ttlSpaces, "after the clock came back", "a", "b")
				c.pass(25 * time.Minute)
				c.sees(ttlSpaces, "25 minutes after the clock came back", "b")
				c.pass(25 * time.Minute)
				c.sees(ttlSpaces, "50 minutes after the clock came back")
			case "wait": // what is over without the jump expires meanwhile
				c.pass(25 * time.Minute)
				c.sees(ttlSpaces, "25 minutes after the jump", "b")
				c.sees(agedSpaces, "25 minutes after the jump", "a", "b")
			}
			if s, err = c.Clock(t.Context()); err != nil || (s.Held != 0) != (end == "wait") {
				t.Fatalf("in the end the clock is %+v, %v", s, err)
			}
		})
	}
}

// TestClockWronglyBack has a clock that was right, is set back by two hours for a while,
// and is right again: nothing lives shorter than it should.
func TestClockWronglyBack(t *testing.T) {
	for _, end := range []string{"accept", "reopen"} {
		t.Run(end, func(t *testing.T) {
			c := openClocked(t)
			c.put("a", 30*time.Minute)
			c.set(-2 * time.Hour)
			c.must(c.Sweep(t.Context()))
			c.pass(5 * time.Minute)
			c.sees(ttlSpaces, "while it is behind", "a")
			c.set(2 * time.Hour)
			c.sees(ttlSpaces, "when it is right again", "a")
			c.must(c.Sweep(t.Context()))
			if end == "accept" {
				_, err := c.AcceptClock(t.Context())
				c.must(err)
			} else {
				c.reopen()
			}
			c.must(c.Sweep(t.Context()))
			c.pass(20 * time.Minute)
			c.sees(ttlSpaces, "after 25 minutes", "a")
			c.holds([]string{"quiet"}, "after 25 minutes", 1)
			c.pass(5 * time.Minute)
			c.sees(ttlSpaces, "after 30 minutes")
			c.holds([]string{"quiet"}, "after 30 minutes", 0)
		})
	}
}

// TestBatchIDsOfAClockAhead checks that IDs remembered while the clock was ahead are
// forgotten some day, but not too soon.
func TestBatchIDsOfAClockAhead(t *testing.T) {
	c := openClocked(t)
	commit := func() bool {
		b := mainstem.NewBatch()
		b.ID = "id"
		b.Put("all", []byte("k"), nil)
		r, err := c.Commit(t.Context(), b)
		c.must(err)
		return r.Duplicate
	}
	c.set(year)
	commit()
	c.set(-year)
	c.must(c.Sweep(t.Context()))
	c.pass(pebblelog.DefaultBatchIDAge - time.Minute)
	c.must(c.Sweep(t.Context()))
	if !commit() {
		t.Fatal("the ID was forgotten too soon")
	}
	c.pass(2 * time.Minute)
	c.must(c.Sweep(t.Context()))
	if commit() {
		t.Fatal("the ID is still remembered")
	}
}

// TestClockMarksInBackup restores a backup of a log whose clock was set back.
func TestClockMarksInBackup(t *testing.T) {
	c := openClocked(t)
	c.put("a", time.Hour)
	c.set(-time.Second)
	c.put("b", time.Hour)
	c.set(-time.Hour)
	c.put("c", time.Hour)
	var backup bytes.Buffer
	c.must(c.Backup(t.Context(), &backup))
	dir := t.TempDir()
	c.must(pebblelog.Restore(t.Context(), &backup, dir))
	c.dir = dir
	c.reopen()
	c.sees(ttlSpaces, "restored", "a", "b", "c")
	c.pass(time.Hour)
	c.sees(ttlSpaces, "restored, an hour later")
}

// TestRewriteWhileBehind rewrites a record while the clock is wrongly behind: when it is
// right again, the record lives as long as it was written to.
func TestRewriteWhileBehind(t *testing.T) {
	c := openClocked(t)
	c.put("a", 30*time.Minute)
	c.set(-2 * time.Hour)
	c.must(c.Sweep(t.Context()))
	b := mainstem.NewBatch()
	for _, s := range ttlSpaces {
		b.Rewrite(s, []byte("a"), 1, []byte("new"), nil)
	}
	_, err := c.Commit(t.Context(), b)
	c.must(err)
	c.set(2 * time.Hour)
	c.must(c.Sweep(t.Context()))
	_, err = c.AcceptClock(t.Context())
	c.must(err)
	c.must(c.Sweep(t.Context()))
	c.pass(29 * time.Minute)
	c.sees(ttlSpaces, "after 29 minutes", "a")
	c.pass(time.Minute)
	c.sees(ttlSpaces, "after 30 minutes")
}

// TestExpiryAfterAHeldJump checks that followers hear of the end of what was written after a
// jump, before anybody accepts it, and of nothing that was written before.
func TestExpiryAfterAHeldJump(t *testing.T) {
	c := openClocked(t)
	c.put("before", year+time.Minute)
	c.set(year)
	c.put("after", time.Minute)
	c.pass(time.Minute)
	c.must(c.Sweep(t.Context()))
	c.sees(ttlSpaces, "a minute later", "before")
	var ended []string
	for r, err := range c.Feed(t.Context(), mainstem.Filter{Spaces: []string{"all"}}) {
		c.must(err)
		if r.Tombstone == mainstem.Expired {
			ended = append(ended, string(r.Key))
		}
	}
	if fmt.Sprint(ended) != "[after]" {
		t.Fatalf("the feed says that %v expired, want after", ended)
	}
	_, err := c.AcceptClock(t.Context())
	c.must(err)
	c.sees(ttlSpaces, "after it was accepted")
}

// TestExpiresBeforeTime checks what a record shows that was written while the clock was
// ahead, and one that was written afterwards: when the clock says they expire.
func TestExpiresBeforeTime(t *testing.T) {
	c := openClocked(t)
	c.set(year)
	c.put("ahead", 5*time.Second)
	c.set(-year)
	c.put("later", 7*time.Second)
	for key, ttl := range map[string]time.Duration{"ahead": 5 * time.Second, "later": 7 * time.Second} {
		r, err := c.Get(t.Context(), "all", []byte(key))
		c.must(err)
		if want := c.now().Add(ttl); !r.Expires.Equal(want) || !r.Time.Equal(c.last) {
			t.Errorf("%s of %s expires at %s, want %s, %s", key, r.Time, r.Expires, c.last, want)
		}
	}
}

// TestDropWritesNoRecord checks that dropping a space leaves no time behind: no record has it.
func TestDropWritesNoRecord(t *testing.T) {
	c := openClocked(t)
	c.must(c.DropSpace(t.Context(), "all"))
	c.set(-time.Hour)
	c.reopen()
	c.must(c.Sweep(t.Context()))
	if s, err := c.Clock(t.Context()); err != nil || s.SetBacks != 0 || s.TimesAhead != 0 {
		t.Fatalf("the clock is %+v, %v", s, err)
	}
}

// TestSnapshotKeepsAges checks that records do not get old in a snapshot when the limit on
// their age becomes lower, nor come back when it becomes higher.
func TestSnapshotKeepsAges(t *testing.T) {
	c := openClocked(t)
	b := mainstem.NewBatch()
	b.Put("hour", []byte("k"), []byte("v"))
	_, err := c.Commit(t.Context(), b)
	c.must(err)
	alter := func(age time.Duration) { c.must(c.AlterSpace(t.Context(), "hour", mainstem.Policy{MaxAge: age})) }
	for _, s := range []struct {
		then, later time.Duration
		want        int
	}{{0, time.Minute, 1}, {3 * time.Hour, time.Minute, 1}, {time.Minute, 3 * time.Hour, 0}} {
		alter(3 * time.Hour)
		if s.then == 3*time.Hour {
			c.pass(2 * time.Hour)
		}
		alter(s.then)
		snap, err := c.Snapshot(t.Context())
		c.must(err)
		alter(s.later)
		n := 0
		for _, err := range snap.Scan(t.Context(), "hour", mainstem.Range{}) {
			c.must(err)
			n++
		}
		for _, err := range snap.Feed(t.Context(), mainstem.Filter{}) {
			c.must(err)
			n++
		}
		if n != 2*s.want {
			t.Errorf("a limit of %v became %v: a scan and a feed see %d records, want %d each", s.then, s.later, n, s.want)
		}
		c.must(snap.Close())
	}
}
