package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/alert/omnirest"
)

// The ways to the tables.
const (
	coordinated = "coordinator"
	native      = "HTTP interface"
)

// scenario is one line of the table: a number of requests, shared by clients. Each
// request goes to both servers.
type scenario struct {
	name     string
	clients  int
	through  string
	original float64 // milliseconds, of the original benchmark; 0 if it has none

	rows    int // that are inserted, or that are there before the selects
	selects int
	fresh   bool // each round inserts alerts that are new
}

// scenarios are the twelve of the original, and the inserts once more with new alerts:
// there all but the first round are alerts that come again.
var scenarios = []scenario{
	{name: "100 inserts", clients: 1, through: coordinated, original: 69.3, rows: 100},
	{name: "100 inserts", clients: 10, through: coordinated, original: 25.0, rows: 100},
	{name: "100 selects of 10 rows", clients: 1, through: coordinated, original: 127.8, rows: 10, selects: 100},
	{name: "100 selects of 10 rows", clients: 10, through: coordinated, original: 53.1, rows: 10, selects: 100},
	{name: "10 selects of 100 rows", clients: 1, through: coordinated, original: 44.8, rows: 100, selects: 10},
	{name: "10 selects of 100 rows", clients: 10, through: coordinated, original: 24.7, rows: 100, selects: 10},
	{name: "100 inserts", clients: 1, through: native, original: 46.4, rows: 100},
	{name: "100 inserts", clients: 10, through: native, original: 1284.3, rows: 100},
	{name: "100 selects of 10 rows", clients: 1, through: native, original: 1072.7, rows: 10, selects: 100},
	{name: "100 selects of 10 rows", clients: 10, through: native, original: 1229.4, rows: 10, selects: 100},
	{name: "10 selects of 100 rows", clients: 1, through: native, original: 113.5, rows: 100, selects: 10},
	{name: "10 selects of 100 rows", clients: 10, through: native, original: 1027.3, rows: 100, selects: 10},
	{name: "100 inserts, all new", clients: 1, through: coordinated, rows: 100, fresh: true},
	{name: "100 inserts, all new", clients: 10, through: coordinated, rows: 100, fresh: true},
	{name: "100 inserts, all new", clients: 1, through: native, rows: 100, fresh: true},
	{name: "100 inserts, all new", clients: 10, through: native, rows: 100, fresh: true},
}

// answer is what one server says.
type answer struct {
	server   string
	rows     []omnirest.Row
	affected int64
}

// ask runs a statement on both servers, one way or the other.
func (b *bed) ask(ctx context.Context, through, statement string) ([]answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answers := make([]answer, len(b.servers))
	if through == coordinated {
		results, err := b.clients.RawSQL(ctx, statement)
		if err != nil || len(results) != len(answers) {
			return nil, fmt.Errorf("%d clusters answered: %w", len(results), err)
		}
		for i, r := range results {
			if r.Err != nil {
				return nil, fmt.Errorf("cluster %s: %w", r.Cluster, r.Err)
			}
			answers[i] = answer{r.Cluster, r.Rows, r.Affected}
		}
		return answers, nil
	}
	errs := make([]error, len(answers))
	var wg sync.WaitGroup
	for i, c := range b.native {
		wg.Go(func() {
			r, err := c.SQL(ctx, statement)
			if err != nil {
				errs[i] = err
				return
			}
			answers[i] = answer{r.Server, r.Rows, r.Affected}
		})
	}
	wg.Wait()
	return answers, errors.Join(errs...)
}

// run runs a scenario and returns the median of its rounds. The error says which answer
// was wrong.
func (b *bed) run(ctx context.Context, s *scenario, rounds int) (time.Duration, error) {
	alerts := newAlerts(s, rounds)
	inserts := s.selects == 0
	if !inserts { // the rows are there before the clock starts
		if _, err := b.insert(ctx, s, alerts); err != nil {
			return 0, err
		}
	}
	var took []time.Duration
	for round := range rounds {
		var d time.Duration
		var err error
		switch {
		case !inserts:
			d, err = b.selectAll(ctx, s, alerts)
		case s.fresh:
			d, err = b.insert(ctx, s, alerts[round*s.rows:][:s.rows])
		default:
			d, err = b.insert(ctx, s, alerts)
		}
		if err != nil {
			return 0, fmt.Errorf("round %d: %w", round+1, err)
		}
		took = append(took, d)
	}
	slices.Sort(took)
	tally := rounds
	if s.fresh || !inserts {
		tally = 1
	}
	return took[(len(took)-1)/2], errors.Join(b.check(ctx, s, alerts, tally), b.remove(ctx, s, alerts))
}

// timed does n things with the clients of the scenario and returns how long it took.
// Each client does every so manieth of them.
func (s *scenario) timed(n int, do func(i int) error) (time.Duration, error) {
	var wg sync.WaitGroup
	errs := make([]error, s.clients)
	began := time.Now()
	for c := range s.clients {
		wg.Go(func() {
			for i := c; i < n && errs[c] == nil; i += s.clients {
				errs[c] = do(i)
			}
		})
	}
	wg.Wait()
	return time.Since(began), errors.Join(errs...)
}

// insert inserts alerts and checks that each was taken by both servers.
func (b *bed) insert(ctx context.Context, s *scenario, alerts []event) (time.Duration, error) {
	statements := make([]string, len(alerts))
	for i := range alerts {
		statements[i] = alerts[i].insert()
	}
	return s.timed(len(statements), func(i int) error {
		answers, err := b.ask(ctx, s.through, statements[i])
		for _, a := range answers {
			if err == nil && (a.affected != 1 || len(a.rows) != 0) {
				err = fmt.Errorf("%s: an insert affected %d rows, and %d came back", a.server, a.affected, len(a.rows))
			}
		}
		return err
	})
}

// selectAll selects all alerts, as often as the scenario says, and compares every value
// that came when the clock has stopped.
func (b *bed) selectAll(ctx context.Context, s *scenario, alerts []event) (time.Duration, error) {
	all := make([][]answer, s.selects)
	statement := selectGroup(alerts[0].group)
	took, err := s.timed(s.selects, func(i int) (err error) {
		all[i], err = b.ask(ctx, s.through, statement)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, answers := range all {
		for _, a := range answers {
			if err := same(a.rows, alerts); err != nil {
				return 0, fmt.Errorf("%s: %w", a.server, err)
			}
		}
	}
	return took, nil
}

// check asks both servers by themselves what they hold: every alert once, with the tally
// that it must have.
func (b *bed) check(ctx context.Context, s *scenario, alerts []event, tally int) error {
	answers, err := b.ask(ctx, native, "select Identifier, Tally, ServerName from alerts.status where AlertGroup = '"+alerts[0].group+"'")
	if err != nil {
		return err
	}
	for i, a := range answers {
		if len(a.rows) != len(alerts) {
			return fmt.Errorf("%s holds %d alerts, want %d", a.server, len(a.rows), len(alerts))
		}
		for _, row := range a.rows {
			if row.Int("Tally") != int64(tally) || row.Text("ServerName") != fmt.Sprint("AGG", i+1) {
				return fmt.Errorf("%s: the alert %s has tally %d, want %d", row.Text("ServerName"), row.Text("Identifier"), row.Int("Tally"), tally)
			}
		}
	}
	return nil
}

// remove removes the alerts of a scenario, the way that it went.
func (b *bed) remove(ctx context.Context, s *scenario, alerts []event) error {
	answers, err := b.ask(ctx, s.through, "DELETE FROM  alerts . status  WHERE ( AlertGroup  = '"+alerts[0].group+"')")
	for _, a := range answers {
		if err == nil && a.affected != int64(len(alerts)) {
			err = fmt.Errorf("%s: a delete affected %d rows, want %d", a.server, a.affected, len(alerts))
		}
	}
	return err
}
