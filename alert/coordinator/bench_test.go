package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/alert/coordinator/client"
	"github.com/mainstemdev/mainstem/alert/omnirest"
)

// insertStatement and selectStatement are what the bench of the original coordinator
// sends: 13 columns in the order of their names, blanks around names and dots.
func insertStatement(id, group string, i int) string {
	return fmt.Sprintf(`INSERT INTO  alerts . status  ( Agent ,  AlertGroup ,  AlertKey ,  ExtendedAttr ,  FirstOccurrence ,  Identifier ,  Manager ,  Node ,  NodeAlias ,  Severity ,  Summary ,  Type ,  URL )`+
		` VALUES ('agent', '%s', '%032x', 'Voluptatem aut consequatur sit accusantium perferendis. Accusantium voluptatem sit aut perferendis consequatur.', %d, '%s', 'manager', 'host%d.example.org', '10.1.2.%d', %d, 'Sit it''s accusantium voluptatem perferendis.', 1, 'http://example.org/%s')`,
		group, i*7919, 1_700_000_000+i, id, i%5000, i%250, 2+i%4, id)
}

func selectStatement(group string) string {
	return `SELECT  Agent ,  AlertGroup ,  AlertKey ,  ExtendedAttr ,  FirstOccurrence ,  Identifier ,  Manager ,  Node ,  NodeAlias ,  Severity ,  Summary ,  Type ,  URL  FROM  alerts . status  WHERE ( AlertGroup  = '` + group + `')`
}

// each does n things with several clients.
func each(clients, n int, do func(i int) error) error {
	if clients == 1 {
		for i := range n {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for c := range clients {
		wg.Go(func() {
			for i := c; i < n; i += clients {
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// bed is two clusters of one object server each, a coordinator and a client, all over
// loopback; the servers in the process, or over HTTP as well.
func bed(t testing.TB, overHTTP bool) *client.Client {
	config := patient(&Config{})
	config.OMNIbus.Clusters = map[string][]string{"AGG1": {"one"}, "AGG2": {"two"}}
	o := &Options{Backends: map[string]Backend{}}
	for i, name := range []string{"one", "two"} {
		s := table(t, fmt.Sprint("AGG", i+1))
		if overHTTP {
			config.OMNIbus.Clusters[fmt.Sprint("AGG", i+1)] = []string{newSite(t, s).addr}
			continue
		}
		o.Backends[name] = must(NewServerBackend(s, people.in))
	}
	return coordinate(t, config, o)
}

// coordinate starts a coordinator and returns a client of it.
func coordinate(t testing.TB, config *Config, o *Options) *client.Client {
	c := must(Open(config, o))
	web := httptest.NewUnstartedServer(nil)
	web.Config = c.Server()
	web.Start()
	cl := must(client.New(web.URL, &client.Options{User: "root", Password: "secret"}))
	t.Cleanup(func() {
		_ = cl.Close()
		web.Close()
		_ = c.Close()
	})
	return cl
}

// ask runs a statement on both clusters and checks how many rows come from each.
func ask(cl *client.Client, sql string, rows int, affected int64) error {
	results, err := cl.RawSQL(context.Background(), sql)
	if err != nil || len(results) != 2 {
		return fmt.Errorf("%d entries, %w", len(results), err)
	}
	for _, r := range results {
		if r.Err != nil || len(r.Rows) != rows || r.Affected != affected {
			return fmt.Errorf("%s: %d rows, affected %d: %v", r.Cluster, len(r.Rows), r.Affected, r.Err)
		}
		if rows > 0 && (r.Rows[0].Text("Summary") != "Sit it's accusantium voluptatem perferendis." || r.Rows[0].Int("Type") != 1) {
			return fmt.Errorf("%s: %s", r.Cluster, r.Rows[0].Raw())
		}
	}
	return nil
}

// TestScenarios runs the six scenarios of the original bench for their answers.
func TestScenarios(t *testing.T) {
	for _, overHTTP := range []bool{false, true} {
		t.Run(fmt.Sprintf("http=%v", overHTTP), func(t *testing.T) {
			cl := bed(t, overHTTP)
			for _, clients := range []int{1, 10} {
				for _, rows := range []int{10, 100} {
					group := fmt.Sprint("group-", clients, "-", rows)
					for range 2 { // the second time they are duplicates
						if err := each(clients, rows, func(i int) error {
							return ask(cl, insertStatement(fmt.Sprint(group, "-", i), group, i), 0, 1)
						}); err != nil {
							t.Fatal(err)
						}
					}
					if err := each(clients, 1000/rows, func(int) error { return ask(cl, selectStatement(group), rows, int64(rows)) }); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := ask(cl, "DELETE FROM  alerts . status  WHERE ( AlertGroup  = 'group-1-100')", 0, 100); err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkScenarios measures them: one operation is 100 inserts, 100 selects of 10 rows,
// or 10 selects of 100 rows, on two clusters.
func BenchmarkScenarios(b *testing.B) {
	for _, overHTTP := range []bool{false, true} {
		for _, clients := range []int{1, 10} {
			b.Run(fmt.Sprintf("http=%v/clients=%d", overHTTP, clients), func(b *testing.B) { benchScenarios(b, overHTTP, clients) })
		}
	}
}

// BenchmarkNative runs them by turns on the two servers themselves, both asked at the
// same time over their HTTP interface, and through a coordinator that asks them so:
// x-coordinator is the median time of the former divided by that of the latter.
func BenchmarkNative(b *testing.B) {
	config := &Config{}
	config.OMNIbus.Clusters = map[string][]string{}
	var native [2]*omnirest.Client
	for i := range native {
		name := fmt.Sprint("AGG", i+1)
		x := newSite(b, table(b, name))
		config.OMNIbus.Clusters[name] = []string{x.addr}
		native[i] = must(omnirest.New("http://"+x.addr, &omnirest.Options{User: "root", Password: "secret", MaxConns: 10}))
		b.Cleanup(func() { _ = native[i].Close() })
	}
	cl := coordinate(b, config, &Options{})
	both := func(sql string, rows int, affected int64) error {
		var wg sync.WaitGroup
		errs := [2]error{}
		for i, c := range native {
			wg.Go(func() {
				r, err := c.SQL(context.Background(), sql)
				if err == nil && (len(r.Rows) != rows || r.Affected != affected) {
					err = fmt.Errorf("%d rows, affected %d", len(r.Rows), r.Affected)
				}
				errs[i] = err
			})
		}
		wg.Wait()
		return errors.Join(errs[:]...)
	}
	through := func(sql string, rows int, affected int64) error { return ask(cl, sql, rows, affected) }
	for i := range 110 {
		group := "hundred"
		if i >= 100 {
			group = "ten"
		}
		if err := through(insertStatement(fmt.Sprint("id-", i), group, i), 0, 1); err != nil {
			b.Fatal(err)
		}
	}
	type asker func(sql string, rows int, affected int64) error
	for name, do := range map[string]struct {
		n  int
		do func(a asker, i int) error
	}{
		"insert=100":        {100, func(a asker, i int) error { return a(insertStatement(fmt.Sprint("id-", i), "hundred", i), 0, 1) }},
		"select=100x10rows": {100, func(a asker, i int) error { return a(selectStatement("ten"), 10, 10) }},
		"select=10x100rows": {10, func(a asker, i int) error { return a(selectStatement("hundred"), 100, 100) }},
	} {
		for _, clients := range []int{1, 10} {
			b.Run(fmt.Sprintf("%s/clients=%d", name, clients), func(b *testing.B) {
				var direct, coordinated []float64
				for b.Loop() {
					for _, way := range []struct {
						a  asker
						to *[]float64
					}{{both, &direct}, {through, &coordinated}} {
						began := time.Now()
						if err := each(clients, do.n, func(i int) error { return do.do(way.a, i) }); err != nil {
							b.Fatal(err)
						}
						*way.to = append(*way.to, float64(time.Since(began)))
					}
				}
				slices.Sort(direct)
				slices.Sort(coordinated)
				b.ReportMetric(direct[len(direct)/2]/1e6, "native-ms")
				b.ReportMetric(coordinated[len(coordinated)/2]/1e6, "coordinator-ms")
				b.ReportMetric(direct[len(direct)/2]/coordinated[len(coordinated)/2], "x-coordinator")
			})
		}
	}
}

func benchScenarios(b *testing.B, overHTTP bool, clients int) {
	cl := bed(b, overHTTP)
	texts := make([]string, 100)
	for i := range texts {
		texts[i] = insertStatement(fmt.Sprint("id-", i), "hundred", i)
	}
	round := 0
	run := func(name string, n int, do func(i int) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var times []time.Duration
			before := processorTime(b)
			for b.Loop() {
				round++
				began := time.Now()
				if err := each(clients, n, do); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(began))
			}
			b.ReportMetric(float64(processorTime(b)-before)/1e6/float64(len(times)), "processor-ms")
			b.ReportMetric(float64(slices.Min(times))/1e6, "least-ms")
		})
	}
	run("insert=100", 100, func(i int) error { return ask(cl, texts[i], 0, 1) })
	run("insertnew=100", 100, func(i int) error {
		id := fmt.Sprint("new-", round, "-", i)
		return ask(cl, insertStatement(id, fmt.Sprint("newgroup-", round), i), 0, 1)
	})
	for i := range 10 {
		if err := ask(cl, insertStatement(fmt.Sprint("ten-", i), "ten", i), 0, 1); err != nil {
			b.Fatal(err)
		}
	}
	run("select=100x10rows", 100, func(int) error { return ask(cl, selectStatement("ten"), 10, 10) })
	run("select=10x100rows", 10, func(int) error { return ask(cl, selectStatement("hundred"), 100, 100) })
}
