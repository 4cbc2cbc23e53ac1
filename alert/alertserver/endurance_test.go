package alertserver_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/alert/omnirest"
	"github.com/mainstemdev/mainstem/server"
)

var endurance = flag.Duration("alertserver.endurance", time.Second, "how long TestAlertsDayAndNight goes on at 50,000 alerts a minute; the goal is 10m, and -v shows each minute")

// The load of TestAlertsDayAndNight.
const (
	alertsEvery  = time.Minute / 50_000
	alertWriters = 16
	alertReaders = 3
	readerEvery  = time.Second
	repeats      = 5 // how often an alert comes, all in all
)

// TestAlertsDayAndNight inserts alerts at a steady pace while readers poll for what has
// changed, and shows what both took, minute by minute: it must not grow with the table.
// What it checks are the answers: every alert is there, counted as often as it came, and
// every reader has seen it so.
func TestAlertsDayAndNight(t *testing.T) {
	n := start(t, func(c *server.Config, a *alertserver.Config) {
		c.Log, a.Omnibus = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0"
	})
	url := "http://" + n.alerts.OmnibusAddr().String()
	total := int64(max(*endurance/alertsEvery, repeats))
	total -= total % repeats
	began := time.Now()
	var took watch
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var writers, readers sync.WaitGroup
	var next atomic.Int64
	for range alertWriters {
		writers.Go(func() {
			c := connect(t, url)
			defer c.Close()
			for i := next.Add(1) - 1; i < total; i = next.Add(1) - 1 {
				due := began.Add(time.Duration(i) * alertsEvery)
				if !until(ctx, due) {
					return
				}
				if err := insertOne(ctx, c, i, total); err != nil {
					stop(err)
					return
				}
				took.note("insert", due.Sub(began), time.Since(due)) // from when it was due: waiting counts
			}
		})
	}
	done := make(chan struct{})
	for r := range alertReaders {
		readers.Go(func() {
			c := connect(t, url)
			defer c.Close()
			if err := poll(ctx, c, r, began, done, &took, total); err != nil {
				stop(err)
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	took.show(t)
	if err := context.Cause(ctx); err != nil {
		t.Fatal(err)
	}
	distinct := total / repeats
	if got := countOf(t, n, "select count(*) from alerts.status"); got != distinct {
		t.Errorf("the table holds %d alerts, want %d", got, distinct)
	}
	if got := countOf(t, n, "select sum(Tally) from alerts.status"); got != total {
		t.Errorf("%d alerts were counted, want %d", got, total)
	}
}

func connect(t *testing.T, url string) *omnirest.Client {
	c, err := omnirest.New(url, &omnirest.Options{User: "root"})
	if err != nil {
		t.Error(err)
	}
	return c
}

// until waits for a time; false if ctx ends before.
func until(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// insertOne inserts the i-th of total alerts: each alert comes repeats times, spread over
// some seconds.
func insertOne(ctx context.Context, c *omnirest.Client, i, total int64) error {
	const window = 10_000 // alerts, of which one in repeats is new
	base, here := i/window*window, i%window
	distinct := min(window, total-base) / repeats
	id := base/repeats + here%distinct
	text := fmt.Sprintf("insert into alerts.status (Identifier, Node, AlertGroup, AlertKey, Manager, Severity, Type, Summary) values ('alert-%d', 'host%d', 'group%d', 'key', 'endurance', %d, 13, 'number %d of an endless row of alerts')",
		id, id%5000, id%100, 1+id%5, i)
	r, err := c.SQL(ctx, text)
	if err != nil || r.Affected != 1 {
		return errors.Join(fmt.Errorf("the insert %d was not done", i), err)
	}
	return nil
}

// poll asks once a second for what has changed, until done is closed and it has seen
// everything.
func poll(ctx context.Context, c *omnirest.Client, r int, began time.Time, done chan struct{}, took *watch, total int64) error {
	seen := map[string]int64{} // the tally of each alert
	last := int64(0)
	for i := 0; ; i++ {
		due := began.Add(time.Duration(i)*readerEvery + time.Duration(r)*readerEvery/alertReaders)
		ended := false
		select {
		case <-done:
			ended = true // all that follows shows everything
		default:
			if !until(ctx, due) {
				return nil
			}
		}
		asked := time.Now()
		_, err := c.RawSQL(ctx, fmt.Sprintf("select Identifier, Serial, Node, Severity, Tally, Summary, StateChange from alerts.status where StateChange >= %d order by StateChange", last), func(row omnirest.Row) error {
			seen[strings.Clone(row.Text("Identifier"))] = row.Int("Tally")
			last = max(last, row.Int("StateChange"))
			return nil
		})
		if err != nil {
			return fmt.Errorf("reader %d: %w", r, err)
		}
		took.note("poll", asked.Sub(began), time.Since(asked))
		if !ended {
			continue
		}
		sum := int64(0)
		for _, tally := range seen {
			sum += tally
		}
		if sum != total || int64(len(seen)) != total/repeats {
			return &mainstem.Error{Kind: mainstem.KindInternal, Op: "poll", Err: fmt.Errorf("reader %d has seen %d alerts that came %d times, want %d and %d", r, len(seen), sum, total/repeats, total)}
		}
		return nil
	}
}

// watch is what things took, minute by minute.
type watch struct {
	mu      sync.Mutex
	minutes []map[string][]time.Duration
}

// note notes something that began at this time after the start.
func (w *watch) note(what string, at, took time.Duration) {
	minute := int(max(at, 0) / time.Minute)
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.minutes) <= minute {
		w.minutes = append(w.minutes, map[string][]time.Duration{})
	}
	w.minutes[minute][what] = append(w.minutes[minute][what], took)
}

// show logs a line for each minute.
func (w *watch) show(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, all := range w.minutes {
		var b strings.Builder
		for _, what := range []string{"insert", "poll"} {
			d := all[what]
			if len(d) == 0 {
				continue
			}
			slices.Sort(d)
			at := func(percent int) time.Duration { return d[(len(d)-1)*percent/100].Round(10 * time.Microsecond) }
			fmt.Fprintf(&b, "  %d %ss: p50 %v, p99 %v, max %v", len(d), what, at(50), at(99), at(100))
		}
		t.Logf("minute %d:%s", i+1, b.String())
	}
}
