package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// The tests of this file are named for what other coordinators got wrong.

// pair returns a front of one cluster with two fake servers.
func pair(t testing.TB, change func(*Config)) (f *front, first, second *fake) {
	t.Helper()
	first, second = &fake{name: "first"}, &fake{name: "second"}
	config := quick(map[string][]string{"AGG": {"first", "second"}})
	config.OMNIbus.HealthInterval = time.Hour
	if change != nil {
		change(config)
	}
	return newFront(t, config, &Options{Backends: map[string]Backend{"first": first, "second": second}}), first, second
}

func (a *answered) from() string {
	if len(a.Rows) == 0 {
		return a.code()
	}
	return fmt.Sprint(a.Rows[0]["Server"])
}

func TestWrongPasswordNeverUsesAPooledConnection(t *testing.T) {
	x := newSite(t, table(t, "ONE"))
	f := newFront(t, quick(map[string][]string{"HTTP": {x.addr}, "LOCAL": {"local"}}), &Options{Backends: map[string]Backend{"local": must(NewServerBackend(table(t, "TWO"), people.in))}})
	for range 3 {
		for name, a := range f.sql("select 1 as one") {
			if a.Error != nil || len(a.Rows) != 1 {
				t.Fatalf("%s: %+v", name, a)
			}
		}
		for _, password := range []string{"wrong", "secret2", "Secret", "secre"} {
			for name, a := range f.as("root", password, "select 1 as one") {
				if a.code() != "ERR_UNAVAILABLE" || a.Error.Message != "cannot connect any addr" || len(a.Rows) != 0 || a.Rows == nil {
					t.Errorf("%s: the password %s: %+v", name, password, a)
				}
			}
		}
	}
}

func TestKeysOfCredentialsAreInjective(t *testing.T) {
	secret := []byte("k")
	if keyOf(secret, Credential{"ab", "c"}) == keyOf(secret, Credential{"a", "bc"}) || keyOf(secret, Credential{"a", "b"}) == keyOf([]byte("l"), Credential{"a", "b"}) {
		t.Error("two credentials have one key, or the key does not depend on the secret")
	}
	if first, again := keyOf(secret, Credential{"a", "b"}), keyOf(secret, Credential{"a", "b"}); first != again {
		t.Error("a credential has two keys")
	}
}

// TestConnectionOfAnotherUserIsNeverHandedOut fills a pool with connections of many
// users, so that each makes room for others again and again.
func TestConnectionOfAnotherUserIsNeverHandedOut(t *testing.T) {
	f, first, _ := pair(t, func(c *Config) { c.OMNIbus.MaxConnections = 3 })
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 60 {
				user, password := fmt.Sprint("user", (g+i)%6), fmt.Sprint("password", i%2)
				a := f.as(user, password, "select 1")["AGG"]
				if len(a.Rows) != 1 || a.Rows[0]["User"] != user || a.Rows[0]["Password"] != password {
					t.Errorf("%s %s got %+v", user, password, a)
				}
			}
		})
	}
	wg.Wait()
	if n := first.get(func() int { return first.most }); n > 3 {
		t.Errorf("%d connections at a time, at most 3", n)
	}
}

func TestFullPoolWaitsInsteadOfFailing(t *testing.T) {
	f, first, _ := pair(t, func(c *Config) { c.OMNIbus.MaxConnections = 1 })
	release, begun := make(chan struct{}), make(chan struct{})
	first.set(func() {
		first.query = func(_ context.Context, c *fakeConn, sql string, row func([]byte) error) (int64, error) {
			if sql == "slow" {
				close(begun)
				<-release
			}
			return 1, row([]byte(`{"Server":"first"}`))
		}
	})
	var wg sync.WaitGroup
	start := func(sql string) {
		wg.Go(func() {
			if a := f.as(sql, "p", sql)["AGG"]; a.from() != "first" {
				t.Errorf("%+v", a)
			}
		})
	}
	start("slow")
	<-begun
	start("select 1")
	start("select 2")
	defer wg.Wait()
	defer close(release)
	testkit.Eventually(t, "two requests wait", func() bool {
		_, _, waiting := f.c.clusters[0].pool.counts()
		return waiting == 2
	})
}

func TestFullPoolFailsWhenTheWaitIsOver(t *testing.T) {
	f, first, _ := pair(t, func(c *Config) { c.OMNIbus.MaxConnections, c.OMNIbus.WaitTimeout = 1, time.Millisecond })
	release, begun := make(chan struct{}), make(chan struct{})
	first.set(func() {
		first.query = func(context.Context, *fakeConn, string, func([]byte) error) (int64, error) {
			close(begun)
			<-release
			return 0, nil
		}
	})
	var wg sync.WaitGroup
	wg.Go(func() { f.sql("slow") })
	<-begun
	if a := f.sql("select 1")["AGG"]; a.code() != "ERR_UNAVAILABLE" || !strings.Contains(a.Error.Reason, "max_connections") {
		t.Errorf("%+v", a)
	}
	close(release)
	wg.Wait()
}

func TestFailoverOfALostPooledConnectionFires(t *testing.T) {
	one, two := table(t, "ONE"), table(t, "TWO")
	a, b := newSite(t, one), newSite(t, two)
	f := newFront(t, quick(map[string][]string{"AGG": {a.addr, b.addr}}), nil)
	const who = "select getservername() as Server from catalog.databases"
	if got := f.sql(who)["AGG"]; got.from() != "ONE" {
		t.Fatalf("%+v", got)
	}
	a.kill()
	for range 5 {
		if got := f.sql(who)["AGG"]; got.from() != "TWO" {
			t.Fatalf("after the server of a pooled connection was killed: %+v", got)
		}
	}
}

// TestFailoverWhenTheConnectionBreaksDuringTheQuery: a SELECT goes on elsewhere.
func TestFailoverWhenTheConnectionBreaksDuringTheQuery(t *testing.T) {
	f, first, _ := pair(t, nil)
	first.set(func() {
		first.query = func(_ context.Context, c *fakeConn, _ string, row func([]byte) error) (int64, error) {
			_ = row([]byte(`{"Server":"half an answer"}`))
			first.set(func() { first.down = refusing })
			return 0, cut
		}
	})
	if a := f.sql("  SELECT 1 as x")["AGG"]; a.from() != "second" || len(a.Rows) != 1 {
		t.Errorf("%+v", a)
	}
}

func TestInsertIsNotSentTwice(t *testing.T) {
	for _, sql := range []string{"insert into a.b values (1)", "update a.b set c = 1", "delete from a.b", "select 1; delete from a.b", "svc update 'x' 1", "???"} {
		f, first, second := pair(t, nil)
		first.set(func() {
			first.query = func(context.Context, *fakeConn, string, func([]byte) error) (int64, error) { return 0, cut }
		})
		a := f.sql(sql)["AGG"]
		if a.code() != "ERR_UNAVAILABLE" || !strings.Contains(a.Error.Reason, "outcome unknown") {
			t.Errorf("%s: %+v", sql, a)
		}
		if n := first.get(func() int { return len(first.queries) }) + second.get(func() int { return len(second.queries) }); n != 1 {
			t.Errorf("%s was sent %d times", sql, n)
		}
	}
}

func TestInsertThatWasNotSentIsSentElsewhere(t *testing.T) {
	f, first, second := pair(t, nil)
	first.set(func() {
		first.query = func(context.Context, *fakeConn, string, func([]byte) error) (int64, error) {
			first.set(func() { first.down = refusing })
			return 0, refusing
		}
	})
	if a := f.sql("insert into a.b values (1)")["AGG"]; a.from() != "second" || second.get(func() int { return len(second.queries) }) != 1 {
		t.Errorf("%+v", a)
	}
}

func TestBrokenConnectionIsNeverPooled(t *testing.T) {
	f, first, second := pair(t, nil)
	broken := func(context.Context, *fakeConn, string, func([]byte) error) (int64, error) { return 0, cut }
	first.set(func() { first.query = broken })
	second.set(func() { second.query = broken })
	for range 5 {
		if a := f.sql("select 1")["AGG"]; a.code() != "ERR_UNAVAILABLE" {
			t.Errorf("%+v", a)
		}
	}
	for _, s := range []*fake{first, second} {
		s.set(func() {
			if s.open != 0 {
				t.Errorf("%d broken connections are open", s.open)
			}
			for _, c := range s.conns {
				if c.used > 1 {
					t.Error("a broken connection was used again")
				}
			}
		})
	}
}

func TestDeadIdleConnectionIsReplaced(t *testing.T) {
	f, first, _ := pair(t, nil)
	f.sql("select 1")
	first.set(func() {
		c := first.conns[0]
		c.mu.Lock()
		c.dead = true
		c.mu.Unlock()
	})
	if a := f.sql("insert 1")["AGG"]; a.from() != "first" {
		t.Errorf("%+v", a)
	}
	if n := first.get(func() int { return len(first.conns) }); n != 2 {
		t.Errorf("%d connections were made", n)
	}
}

func TestFailbackMovesExistingConnections(t *testing.T) {
	f, first, second := pair(t, func(c *Config) {
		c.OMNIbus.HealthInterval = 5 * time.Millisecond
		c.OMNIbus.FailBackDelay = 5 * time.Millisecond
	})
	first.set(func() { first.down = refusing })
	if a := f.sql("select 1")["AGG"]; a.from() != "second" {
		t.Fatalf("%+v", a)
	}
	first.set(func() { first.down = nil })
	testkit.Eventually(t, "idle connections to the second server are closed, without any request", func() bool {
		return f.c.clusters[0].current().server == 0 && second.get(func() int { return second.open }) == 0
	})
	if a := f.sql("select 1")["AGG"]; a.from() != "first" {
		t.Errorf("after the failback: %+v", a)
	}
}

// TestFailbackEndsConnectionsInUse: one that is in use moves after its statement.
func TestFailbackEndsConnectionsInUse(t *testing.T) {
	f, first, second := pair(t, nil)
	first.set(func() { first.down = refusing })
	release, begun := make(chan struct{}), make(chan struct{})
	second.set(func() {
		second.query = func(_ context.Context, _ *fakeConn, _ string, row func([]byte) error) (int64, error) {
			close(begun)
			<-release
			return 1, row([]byte(`{"Server":"second"}`))
		}
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if a := f.sql("select 1")["AGG"]; a.from() != "second" {
			t.Errorf("what was running failed: %+v", a)
		}
	})
	<-begun
	first.set(func() { first.down = nil })
	f.c.clusters[0].servers[0].well()
	f.c.clusters[0].moveTo(f.c.clusters[0].current(), 0, "test")
	close(release)
	wg.Wait()
	if n := second.get(func() int { return second.open }); n != 0 {
		t.Error("the connection stayed on the second server")
	}
}

// TestGrowthOfThePoolDoesNotDelayFailback: requests and new connections all the time
// do not put it off.
func TestGrowthOfThePoolDoesNotDelayFailback(t *testing.T) {
	f, first, _ := pair(t, func(c *Config) {
		c.OMNIbus.HealthInterval = 5 * time.Millisecond
		c.OMNIbus.FailBackDelay = 30 * time.Millisecond
	})
	first.set(func() { first.down = refusing })
	f.sql("select 1")
	first.set(func() { first.down = nil })
	n := 0
	testkit.Eventually(t, "the first server is asked again", func() bool {
		n++
		a := f.as(fmt.Sprint("user", n), "p", "select 1")["AGG"] // a new connection each time
		return a.from() == "first"
	})
}

func TestRandomFailover(t *testing.T) {
	backends, names := map[string]Backend{}, []string{}
	var servers []*fake
	for i := range 5 {
		s := &fake{name: fmt.Sprint("s", i)}
		servers = append(servers, s)
		names = append(names, s.name)
		backends[s.name] = s
	}
	no := false
	seen := map[string]bool{}
	for range 60 {
		config := quick(map[string][]string{"AGG": names})
		config.OMNIbus.RandomFailOver, config.OMNIbus.FailBack = true, &no
		servers[0].set(func() { servers[0].down = refusing })
		c, err := Open(config, &Options{Backends: backends})
		if err != nil {
			t.Fatal(err)
		}
		conn, i, err := c.clusters[0].connect(t.Context(), Credential{})
		if err != nil || i == 0 {
			t.Fatal(i, err)
		}
		_ = conn.Close()
		seen[names[i]] = true
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 4 {
		t.Errorf("failovers went to %v only", seen)
	}
}

// TestDeadlineEndsTheQuery: nothing runs on after its request has been answered.
func TestDeadlineEndsTheQuery(t *testing.T) {
	f, first, _ := pair(t, func(c *Config) { c.OMNIbus.QueryTimeout = 10 * time.Millisecond })
	ended := make(chan struct{})
	first.set(func() {
		first.query = func(ctx context.Context, _ *fakeConn, _ string, _ func([]byte) error) (int64, error) {
			<-ctx.Done()
			close(ended)
			return 0, &mainstem.Error{Kind: mainstem.KindCanceled, Outcome: mainstem.Unknown, Err: context.Cause(ctx)}
		}
	})
	a := f.sql("select 1")["AGG"]
	<-ended
	if a.code() != "ERR_TIMEOUT" {
		t.Errorf("%+v", a)
	}
	if n := first.get(func() int { return first.open }); n != 0 {
		t.Error("the connection of a query that was given up is used again")
	}
}

func TestErrorsOfStatementsAreNamed(t *testing.T) {
	x := newSite(t, table(t, "ONE"))
	f := newFront(t, quick(map[string][]string{"HTTP": {x.addr}, "LOCAL": {"local"}}), &Options{Backends: map[string]Backend{"local": must(NewServerBackend(table(t, "TWO"), people.in))}})
	for sql, code := range map[string]string{
		"select nonsense from alerts.status": "ERR_NOT_FOUND", "select from where": "ERR_INVALID_ARGUMENT", "grant all": "ERR_INCORRECT_OPERATION", "": "ERR_INVALID_ARGUMENT",
	} {
		for name, a := range f.sql(sql) {
			if a.code() != code || a.Error.Reason == "" {
				t.Errorf("%s: %q: %+v", name, sql, a.Error)
			}
		}
	}
	for name, a := range f.as("reader", "r", "delete from alerts.status") {
		if a.code() != "ERR_INSUFFICIENT_PRIVILEGES" {
			t.Errorf("%s: %+v", name, a.Error)
		}
	}
	if f.c.Ready() != nil {
		t.Error("errors of statements count as failures of servers")
	}
}

// TestBreaker: a server that fails is left alone, and asked again when a check finds it well.
func TestBreaker(t *testing.T) {
	f, first, second := pair(t, func(c *Config) { c.OMNIbus.BreakerDelay = time.Hour })
	broken := func(context.Context, *fakeConn, string, func([]byte) error) (int64, error) { return 0, cut }
	first.set(func() { first.query = broken })
	if a := f.sql("select 1")["AGG"]; a.from() != "second" {
		t.Fatalf("a SELECT on a server that always fails: %+v", a)
	}
	if n := first.get(func() int { return len(first.queries) }); n != DefaultBreakerFailures {
		t.Errorf("the failing server was asked %d times", n)
	}
	second.set(func() { second.down = refusing; second.query = broken })
	f.sql("select 1")
	if err := f.c.Ready(); !errors.Is(err, mainstem.ErrUnavailable) {
		for range DefaultBreakerFailures {
			f.sql("select 1")
		}
		if err := f.c.Ready(); !errors.Is(err, mainstem.ErrUnavailable) {
			t.Error("no server is left, and the coordinator is ready:", err)
		}
	}
	asked := first.get(func() int { return len(first.queries) })
	if a := f.sql("select 1")["AGG"]; a.code() != "ERR_UNAVAILABLE" || !strings.Contains(a.Error.Reason, "left alone") {
		t.Errorf("%+v", a)
	}
	if n := first.get(func() int { return len(first.queries) }); n != asked {
		t.Error("a server that is left alone was asked")
	}
	first.set(func() { first.query = nil })
	f.c.clusters[0].check(t.Context())
	if a := f.sql("select 1")["AGG"]; a.from() != "first" || f.c.Ready() != nil {
		t.Errorf("after a check found it well: %+v", a)
	}
}

// TestAnswersOpenNoBreaker: a server that answers that it cannot serve a statement is well.
func TestAnswersOpenNoBreaker(t *testing.T) {
	f, first, second := pair(t, func(c *Config) { c.OMNIbus.BreakerDelay = time.Hour })
	full := &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.NotWritten, Err: &omnirest.StatusError{Status: 503, Message: "no memory"}}
	refuse := func(context.Context, *fakeConn, string, func([]byte) error) (int64, error) { return 0, full }
	first.set(func() { first.query = refuse })
	for range 2 * DefaultBreakerFailures {
		if a := f.sql("select 1")["AGG"]; a.code() != "ERR_UNAVAILABLE" || !strings.Contains(a.Error.Reason, "no memory") {
			t.Fatalf("%+v", a)
		}
	}
	if n, m := first.get(func() int { return len(first.queries) }), second.get(func() int { return len(second.queries) }); n != 2*DefaultBreakerFailures || m != 0 {
		t.Errorf("the servers were asked %d and %d times", n, m)
	}
	first.set(func() {
		first.query = func(_ context.Context, _ *fakeConn, _ string, _ func([]byte) error) (int64, error) {
			first.set(func() { first.down = full }) // it answers checks so, too
			return 0, full
		}
	})
	if a := f.sql("select 1")["AGG"]; a.from() != "second" {
		t.Errorf("a server whose check fails: %+v", a)
	}
}

// TestSenselessAnswersOpenNoBreaker: a statement whose answer cannot be read is not sent again, and a
// server that is well otherwise goes on.
func TestSenselessAnswersOpenNoBreaker(t *testing.T) {
	f, first, second := pair(t, func(c *Config) { c.OMNIbus.BreakerDelay = time.Hour })
	senseless := &mainstem.Error{Kind: mainstem.KindCorrupt, Outcome: mainstem.Unknown, Err: errors.New("the row is no object")}
	first.set(func() {
		first.query = func(context.Context, *fakeConn, string, func([]byte) error) (int64, error) { return 0, senseless }
	})
	for range 2 * DefaultBreakerFailures {
		if a := f.sql("select 1")["AGG"]; a.code() != "ERR_SYSTEM" || !strings.Contains(a.Error.Reason, "no object") {
			t.Fatalf("%+v", a)
		}
	}
	if n, m := first.get(func() int { return len(first.queries) }), second.get(func() int { return len(second.queries) }); n != 2*DefaultBreakerFailures || m != 0 {
		t.Errorf("the servers were asked %d and %d times", n, m)
	}
	if failures, last := f.c.clusters[0].servers[0].state(); failures != 0 {
		t.Errorf("%d failures, the last: %v", failures, last)
	}
	if n := first.get(func() int { return first.open }); n != 0 {
		t.Errorf("%d connections with such answers are open", n)
	}
}

// TestFailuresBetweenSuccesses are not in a row.
func TestFailuresBetweenSuccesses(t *testing.T) {
	f, first, _ := pair(t, func(c *Config) { c.OMNIbus.BreakerDelay = time.Hour })
	for range 2 * DefaultBreakerFailures {
		first.set(func() {
			first.query = func(context.Context, *fakeConn, string, func([]byte) error) (int64, error) { return 0, cut }
		})
		f.sql("insert into a.b values (1)") // which is not sent again
		first.set(func() { first.query = nil })
		if a := f.sql("select 1")["AGG"]; a.from() != "first" {
			t.Fatalf("%+v", a)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestMovesOfAnEarlierTurnDoNothing: who found the first server away before the cluster moved and
// came back does not move it again.
func TestMovesOfAnEarlierTurnDoNothing(t *testing.T) {
	f, _, _ := pair(t, nil) // which does not fail back for an hour
	c := f.c.clusters[0]
	found := c.current()
	c.moveTo(found, 1, "test")
	c.moveTo(c.current(), 0, "test")
	c.moveTo(found, 1, "test")
	if got := c.current().server; got != 0 {
		t.Errorf("server %d is asked, want the first", got)
	}
}

// atMove is a handler of a log that does something at the first line that names a move.
type atMove struct {
	slog.Handler
	done *atomic.Bool
	do   func()
}

// Handle implements slog.Handler.
func (h atMove) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "moved to another server") && !h.done.Swap(true) {
		h.do()
	}
	return nil
}

// TestThePoolFollowsMovesInTheirOrder: a move that is not done when the next one comes does not
// leave the pool at the server before.
func TestThePoolFollowsMovesInTheirOrder(t *testing.T) {
	first, second := &fake{name: "first"}, &fake{name: "second"}
	config := quick(map[string][]string{"AGG": {"first", "second"}})
	config.OMNIbus.HealthInterval = time.Hour
	var c *cluster
	log := slog.New(atMove{slog.NewTextHandler(io.Discard, nil), new(atomic.Bool), func() { c.moveTo(c.current(), 0, "test") }})
	f := newFront(t, config, &Options{Backends: map[string]Backend{"first": first, "second": second}, Logger: log})
	c = f.c.clusters[0]
	c.moveTo(c.current(), 1, "test")
	for range 3 {
		if a := f.sql("select 1")["AGG"]; a.from() != "first" {
			t.Fatalf("%+v", a)
		}
	}
	if n := first.get(func() int { return len(first.conns) }); n != 1 {
		t.Errorf("%d connections were made for three statements, want 1", n)
	}
}

// overdue is a ResponseWriter whose deadlines for reading are over before its handler goes on.
type overdue struct {
	http.ResponseWriter
	r *http.Request
}

// SetReadDeadline is for http.ResponseController.
func (w *overdue) SetReadDeadline(at time.Time) error {
	control := http.NewResponseController(w.ResponseWriter)
	if at.IsZero() {
		return control.SetReadDeadline(at)
	}
	err := control.SetReadDeadline(time.Unix(1, 0))
	<-w.r.Context().Done()
	return err
}

// TestRequestWithoutABodyEndsNoOther: it has no deadline that would end its connection.
func TestRequestWithoutABodyEndsNoOther(t *testing.T) {
	f, first, _ := pair(t, nil)
	first.query = func(ctx context.Context, _ *fakeConn, _ string, row func([]byte) error) (int64, error) {
		return 1, errors.Join(ctx.Err(), row([]byte(`{"Server":"first"}`)))
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			w = &overdue{w, r}
		}
		f.c.Handler().ServeHTTP(w, r)
	}))
	defer web.Close()
	g := &front{t: t, c: f.c, web: web}
	if resp, text := g.post("root", "secret", ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%s %s", resp.Status, text)
	}
	if a := g.sql("select 1")["AGG"]; a.from() != "first" { // on the same connection
		t.Errorf("%+v", a)
	}
}
