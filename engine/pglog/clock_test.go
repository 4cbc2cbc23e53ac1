package pglog_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// aheadClock makes the clock that the server shows to the log be ahead by so many days
// (0: right).
func aheadClock(t *testing.T, c *pgx.Conn, days int) {
	t.Helper()
	def := value[string](t, c, "SELECT pg_get_functiondef('mainstem.tick'::regproc)")
	if i := strings.Index(def, "(clock_timestamp() + "); i >= 0 {
		j := i + strings.Index(def[i:], "')") + len("')")
		def = def[:i] + "clock_timestamp()" + def[j:]
	}
	if days != 0 {
		def = strings.Replace(def, "clock_timestamp()", fmt.Sprintf("(clock_timestamp() + interval '%d days')", days), 1)
	}
	execute(t, c, def)
}

func clockOf(t *testing.T, log *pglog.Log) mainstem.ClockState {
	t.Helper()
	s, err := log.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sweep(t *testing.T, logs ...*pglog.Log) {
	t.Helper()
	for _, log := range logs {
		if err := log.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// holds checks the records of the feed, before and after a sweep.
func holds(t *testing.T, when string, want string, logs ...*pglog.Log) {
	t.Helper()
	for range 2 {
		for i, log := range logs {
			if got := fmt.Sprint(feed(t, log, mainstem.Filter{})); got != want {
				t.Fatalf("%s: log %d has %s, want %s", when, i, got, want)
			}
		}
		sweep(t, logs...)
	}
}

func ttl(key string, d time.Duration) *mainstem.Batch {
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	b.Add(mainstem.Write{Space: "s", Key: []byte(key), Value: []byte("v"), TTL: d})
	return b
}

// The server's clock jumps forward while two processes have the log open. A third one, which
// opens it afterwards, removes nothing either; what it accepts holds for all.
func TestServerClockJumps(t *testing.T) {
	url := testpostgres.FastDB(t)
	var out testkit.Lines
	o := &pglog.Options{SweepEvery: time.Hour, Logger: out.Logger()}
	first, second := openAt(t, url, o), openAt(t, url, o)
	c := connect(t, url)
	commit(t, first, ttl("a", time.Hour))
	aheadClock(t, c, 365)
	holds(t, "after the jump", "[a@1=v]", first, second)
	commit(t, second, ttl("b", time.Hour))
	third := openAt(t, url, o)
	holds(t, "after another process has opened the log", "[a@1=v b@1=v]", first, second, third)
	for i, log := range []*pglog.Log{first, second, third} {
		if s := clockOf(t, log); s.Held < 364*24*time.Hour || (s.Jumps == 1) != (i < 2) {
			t.Errorf("to log %d the clock is %+v", i, s)
		}
	}
	if n := out.Count("the clock jumped forward:"); n != 2 {
		t.Errorf("the jump was logged %d times, want once for each process that was there", n)
	}
	if s, err := third.AcceptClock(t.Context()); err != nil || s.Held < 364*24*time.Hour {
		t.Fatalf("accepting returned %+v, %v", s, err)
	}
	testkit.Eventually(t, "the first record expires", func() bool {
		sweep(t, first)
		return len(feed(t, second, mainstem.Filter{})) == 2 // its tombstone, and b
	})
	for i, log := range []*pglog.Log{first, second, third} {
		if s := clockOf(t, log); s.Held != 0 {
			t.Errorf("after it was accepted, to log %d the clock is %+v", i, s)
		}
	}
}

// A process that has not noticed a jump of the server's clock yet expects the time before.
// When it writes, that sets no clock back: the jump that another one has noticed is held.
func TestWriterThatHasNotNoticedAJump(t *testing.T) {
	url := testpostgres.FastDB(t)
	o := &pglog.Options{SweepEvery: time.Hour}
	first, second := openAt(t, url, o), openAt(t, url, o)
	c := connect(t, url)
	commit(t, first, ttl("a", time.Hour))
	aheadClock(t, c, 365)
	sweep(t, first)
	commit(t, first, ttl("b", time.Hour))
	commit(t, second, ttl("c", time.Hour))
	two := ttl("d", time.Hour)
	two.Put("s", []byte("e"), nil)
	commit(t, second, two)
	holds(t, "after both have written", "[a@1=v b@1=v c@1=v d@1=v e@1=]", first, second)
	for i, log := range []*pglog.Log{first, second} {
		if s := clockOf(t, log); s.Held < 364*24*time.Hour || s.SetBacks != 0 {
			t.Errorf("to log %d the clock is %+v", i, s)
		}
	}
}

// A clock that comes back, passes the time of a record again, and comes back from there to a
// later time than at first: the record counts as written then, the second time too.
func TestClockComesBackTwice(t *testing.T) {
	url := testpostgres.FastDB(t)
	c := connect(t, url)
	o := &pglog.Options{SweepEvery: time.Hour}
	openAt(t, url, o).Close()
	aheadClock(t, c, 10)
	log := openAt(t, url, o)
	commit(t, log, ttl("a", 24*time.Hour))
	// ends checks how long a lives yet, by a clock that is ahead by so many days.
	ends := func(ahead int) {
		t.Helper()
		holds(t, fmt.Sprintf("%d days ahead", ahead), "[a@1=v]", log)
		r, err := log.Get(t.Context(), "s", []byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(r.Expires) - time.Duration(ahead)*24*time.Hour; left > 25*time.Hour {
			t.Errorf("%d days ahead: the record expires in %v, want a day", ahead, left)
		}
	}
	aheadClock(t, c, 0)
	ends(0)
	aheadClock(t, c, 10)
	sweep(t, log)
	if _, err := log.AcceptClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ends(10)
	aheadClock(t, c, 5)
	ends(5)
	if s := clockOf(t, log); s.SetBacks != 2 {
		t.Errorf("the clock is %+v, want 2 set-backs", s)
	}
}

// While a jump is held, what was written after it expires by the clock, and followers hear of
// that: the tombstone does not wait for the end of the hold.
func TestTombstonesDuringAHold(t *testing.T) {
	log, url := openNew(t, &pglog.Options{SweepEvery: time.Hour})
	c := connect(t, url)
	commit(t, log, ttl("a", time.Hour))
	aheadClock(t, c, 365)
	sweep(t, log)
	commit(t, log, ttl("c", time.Hour))
	commit(t, log, ttl("b", time.Millisecond)) // last: its tombstone may come before the next commit
	testkit.Eventually(t, "the tombstone of b", func() bool {
		sweep(t, log)
		return fmt.Sprint(feed(t, log, mainstem.Filter{})) == "[a@1=v c@1=v b@2=]"
	})
	if s := clockOf(t, log); s.Held < 364*24*time.Hour {
		t.Errorf("the clock is %+v", s)
	}
}

// A server's clock that comes back holds nothing up. It is believed at once, by processes that
// have not noticed yet too: what they write is not at the time before.
func TestServerClockComesBack(t *testing.T) {
	url := testpostgres.FastDB(t)
	var out testkit.Lines
	o := &pglog.Options{SweepEvery: time.Hour, Logger: out.Logger()}
	c := connect(t, url)
	openAt(t, url, o).Close()
	aheadClock(t, c, 365)
	log := openAt(t, url, o) // what a clock shows when a log is opened is believed
	commit(t, log, ttl("ahead", 50*time.Millisecond))
	aheadClock(t, c, 0)
	commit(t, log, ttl("later", 50*time.Millisecond))
	if n := value[int](t, c, "SELECT set_backs FROM mainstem.log"); n != 1 {
		t.Errorf("the first commit after it noted %d set-backs, want 1", n)
	}
	sweep(t, log)
	commit(t, log, ttl("long", time.Hour))
	testkit.Eventually(t, "both expire", func() bool {
		sweep(t, log)
		n := 0
		for _, err := range log.Scan(t.Context(), "s", mainstem.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n == 1
	})
	if s := clockOf(t, log); s.SetBacks != 1 || s.Held != 0 || s.TimesAhead < 364*24*time.Hour {
		t.Errorf("the clock is %+v", s)
	}
	if n := out.Count("the clock was set back"); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
}

// A jump is over when the log is opened again, after everybody has closed it.
func TestReopeningEndsAHold(t *testing.T) {
	url := testpostgres.FastDB(t)
	o := &pglog.Options{SweepEvery: time.Hour}
	first, second := openAt(t, url, o), openAt(t, url, o)
	c := connect(t, url)
	commit(t, first, ttl("a", time.Hour))
	aheadClock(t, c, 365)
	holds(t, "after the jump", "[a@1=v]", first, second)
	for _, log := range []*pglog.Log{first, second} {
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	again := openAt(t, url, o)
	if s := clockOf(t, again); s.Held != 0 {
		t.Errorf("the clock is %+v", s)
	}
	if _, err := again.Get(t.Context(), "s", []byte("a")); mainstem.KindOf(err) != mainstem.KindNotFound {
		t.Errorf("the record is there: %v", err)
	}
}

// Many records are moved in parts, and given back when the clock had been right.
func TestManyRecordsOfAClockAhead(t *testing.T) {
	url := testpostgres.FastDB(t)
	var mu sync.Mutex
	now := time.Date(2031, 3, 1, 12, 0, 0, 0, time.UTC)
	set := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	log := openAt(t, url, &pglog.Options{SweepEvery: time.Hour, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	c := connect(t, url)
	for _, s := range []string{"x", "y"} {
		b := mainstem.NewBatch()
		b.Ensure(s, mainstem.Policy{})
		for i := range 1500 {
			b.Add(mainstem.Write{Space: s, Key: fmt.Append(nil, i), TTL: time.Hour})
		}
		commit(t, log, b)
	}
	const moved = "SELECT count(*) FROM mainstem.moved"
	set(-2 * time.Hour)
	sweep(t, log)
	if n := value[int](t, c, moved); n != 3000 {
		t.Errorf("%d records were moved, want 3000", n)
	}
	set(2*time.Hour + 30*time.Minute)
	sweep(t, log)
	if n := value[int](t, c, moved); n != 0 {
		t.Errorf("%d records are still moved", n)
	}
	if in, err := log.Space(t.Context(), "y"); err != nil || in.Records != 1500 {
		t.Errorf("y holds %d records, %v", in.Records, err)
	}
	set(30 * time.Minute)
	sweep(t, log)
	if in, err := log.Space(t.Context(), "y"); err != nil || in.Records != 1500 || in.Keys != 1500 {
		t.Errorf("y holds %d records, %v: want the tombstones", in.Records, err)
	}
	if n := value[int](t, c, "SELECT count(*) FROM mainstem.record WHERE tomb = 3"); n != 3000 {
		t.Errorf("%d records have expired, want 3000", n)
	}
}
