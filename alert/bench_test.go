package alert

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

var benchRows = flag.Int("alert.rows", 20_000, "rows in the table of the benchmarks")

// statement is the INSERT of the coordinator's bench: 13 columns, with blanks
// around names and dots.
func statement(id, group string, i int) string {
	return fmt.Sprintf(`INSERT INTO  alerts . status  ( Agent ,  AlertGroup ,  AlertKey ,  ExtendedAttr ,  FirstOccurrence ,  Identifier ,  Manager ,  Node ,  NodeAlias ,  Severity ,  Summary ,  Type ,  URL )`+
		` VALUES ('agent', '%s', '%032x', 'Voluptatem aut consequatur sit accusantium perferendis. Accusantium voluptatem sit aut perferendis consequatur.', %d, '%s', 'manager', 'host%d.example.org', '10.1.2.%d', %d, 'Sit it''s accusantium voluptatem perferendis.', 1, 'http://example.org/%s')`,
		group, i*7919, 1_700_000_000+i, id, i%5000, i%250, 2+i%4, id)
}

func selectStatement(group string) string {
	return `SELECT  Agent ,  AlertGroup ,  AlertKey ,  ExtendedAttr ,  FirstOccurrence ,  Identifier ,  Manager ,  Node ,  NodeAlias ,  Severity ,  Summary ,  Type ,  URL  FROM  alerts . status  WHERE ( AlertGroup  = '` + group + `')`
}

// populate fills alerts.status with n rows, ten to a group.
func populate(t testing.TB, s *Server, n int) {
	t.Helper()
	columns := []string{"Identifier", "Node", "AlertGroup", "AlertKey", "Manager", "Agent", "Severity", "Summary", "Type", "FirstOccurrence", "ExtendedAttr", "NodeAlias", "URL"}
	rows := make([][]any, 0, 5000)
	for i := range n {
		id := fmt.Sprintf("identifier-%08d", i*7919%n)
		rows = append(rows, []any{id, fmt.Sprintf("host%d.example.org", i%5000), fmt.Sprint("group-", i/10), fmt.Sprintf("%032x", i), "manager", "agent",
			2 + i%4, "Sit accusantium voluptatem perferendis, as sentences of a summary are.", 1, 1_700_000_000 + i,
			"Voluptatem aut consequatur sit accusantium perferendis. Accusantium voluptatem sit aut perferendis consequatur.", "10.1.2.3", "http://example.org/x"})
		if len(rows) == cap(rows) || i == n-1 {
			if _, err := s.Session(SessionInfo{}).InsertRows(context.Background(), "alerts.status", columns, rows); err != nil {
				t.Fatal(err)
			}
			rows = rows[:0]
		}
	}
	query(t, s, "select count(*) from alerts.status where Serial = 1") // the rows are in the mirror
}

func BenchmarkInsert(b *testing.B) {
	for _, size := range []int{0, *benchRows} {
		b.Run(fmt.Sprintf("new/rows=%d", size), func(b *testing.B) {
			s := open(b, testengines.Memory(b), Options{})
			populate(b, s, size)
			i := 0
			for b.Loop() {
				i++
				exec(b, s, statement(fmt.Sprint("new", i), fmt.Sprint("newgroup", i/100), i))
			}
		})
		b.Run(fmt.Sprintf("again/rows=%d", size), func(b *testing.B) {
			s := open(b, testengines.Memory(b), Options{})
			populate(b, s, size)
			i := 0
			for b.Loop() {
				i++
				exec(b, s, statement(fmt.Sprint("new", i%100), "newgroup", i))
			}
		})
	}
	b.Run("clients=10", func(b *testing.B) {
		s := open(b, testengines.Memory(b), Options{})
		var i atomic.Int64
		b.SetParallelism(5)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				n := int(i.Add(1))
				if _, err := s.Exec(context.Background(), statement(fmt.Sprint("new", n), fmt.Sprint("newgroup", n/100), n)); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

// directory returns a log in a directory: what it holds is not in memory.
func directory(b *testing.B) mainstem.Log {
	log, err := pebblelog.Open(b.TempDir(), &pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := log.Close(); err != nil {
			b.Error(err)
		}
	})
	return log
}

// BenchmarkTable works on one table of -alert.rows rows.
func BenchmarkTable(b *testing.B) {
	empty := open(b, directory(b), Options{})
	s := open(b, directory(b), Options{})
	populate(b, s, *benchRows)
	drain := func(b *testing.B, text string, n int) {
		rows, err := s.Query(context.Background(), text)
		if err != nil {
			b.Fatal(err)
		}
		got, err := rows.Collect()
		if err != nil || len(got) != n {
			b.Fatal(len(got), err)
		}
	}
	groups := *benchRows / 10
	b.Run("group", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			drain(b, selectStatement(fmt.Sprint("group-", i*31%groups)), 10)
		}
	})
	b.Run("key", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			drain(b, fmt.Sprintf("select * from alerts.status where Identifier = 'identifier-%08d'", i%*benchRows), 1)
		}
	})
	b.Run("serial", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			drain(b, fmt.Sprintf("select * from alerts.status where Serial = %d", 1+i%*benchRows), 1)
		}
	})
	b.Run("delta", func(b *testing.B) {
		last := query(b, s, "select max(StateChange) from alerts.status")[0][0]
		for b.Loop() {
			drain(b, "select * from alerts.status where 1=1 and StateChange > "+last+" order by StateChange", 0)
		}
	})
	// An insert here and one into a table that was empty take turns, so that
	// whatever else the machine does is in both.
	b.Run("insert-new", func(b *testing.B) {
		var here, there []time.Duration
		i := 0
		for b.Loop() {
			i++
			text := statement(fmt.Sprint("new", i), fmt.Sprint("newgroup", i/100), i)
			began := time.Now()
			exec(b, s, text)
			middle := time.Now()
			exec(b, empty, text)
			here = append(here, middle.Sub(began))
			there = append(there, time.Since(middle))
		}
		b.ReportMetric(median(here), "full-ns/op")
		b.ReportMetric(median(there), "empty-ns/op")
		b.ReportMetric(median(here)/median(there), "x-empty")
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapInuse)/(1<<20), "Go-heap-MiB")
		b.ReportMetric(residentMiB(b), "resident-MiB")
	})
	b.Run("after-a-write", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			exec(b, s, "update alerts.status set Flash = ? where Serial = 1", i)
			drain(b, selectStatement(fmt.Sprint("group-", i*31%groups)), 10)
		}
	})
}

// median returns the middle one of times, in nanoseconds. The machine's other work
// makes some of them many times longer.
func median(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2])
}

// BenchmarkParts compares an INSERT with the work that it cannot do without, by turns:
// committing the same record to a log of its own, and adding the same row to a mirror of
// its own, in a transaction each.
func BenchmarkParts(b *testing.B) {
	s, bare := open(b, testengines.Memory(b), Options{}), open(b, testengines.Memory(b), Options{})
	tab := bare.table("alerts.status")
	spare := testengines.Memory(b)
	space := mainstem.NewBatch()
	space.Ensure("rows", rowPolicy())
	if _, err := spare.Commit(b.Context(), space); err != nil {
		b.Fatal(err)
	}
	var whole, commits, rows []time.Duration
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint("new", i)
		text := statement(id, fmt.Sprint("newgroup", i/100), i)
		t0 := time.Now()
		exec(b, s, text)
		t1 := time.Now()
		values := slices.Clone(tab.zero)
		for name, v := range map[string]Value{"Identifier": Text(id), "Serial": Int(int64(i + 1)), "AlertKey": Text(fmt.Sprintf("%032x", i)), "Node": Text(fmt.Sprint("host", i%5000)),
			"AlertGroup": Text(fmt.Sprint("newgroup", i/100)), "Severity": Int(5), "Tally": Int(1), "StateChange": Int(1_700_000_000), "LastOccurrence": Int(1_700_000_000), "ServerSerial": Int(int64(i + 1))} {
			values[tab.header.index[name]] = v
		}
		record := encodeRow(nil, tab, values)
		t2 := time.Now()
		batch := mainstem.NewBatch()
		batch.IfAbsent("rows", []byte(id))
		batch.Put("rows", []byte(id), record)
		if _, err := spare.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		t3 := time.Now()
		if err := errors.Join(bare.mirror.begin(b.Context(), final), second(bare.mirror.put(b.Context(), tab, int64(i+1), 1, values)), bare.mirror.commit(b.Context())); err != nil {
			b.Fatal(err)
		}
		whole, commits, rows = append(whole, t1.Sub(t0)), append(commits, t3.Sub(t2)), append(rows, time.Since(t3))
	}
	b.ReportMetric(median(whole), "insert-ns")
	b.ReportMetric(median(commits), "commit-ns")
	b.ReportMetric(median(rows), "row-ns")
	b.ReportMetric(median(whole)/(median(commits)+median(rows)), "x-parts")
}

func second[T any](_ T, err error) error { return err }

// residentMiB returns the memory that the process has now, where the system tells.
func residentMiB(b *testing.B) float64 {
	p, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(p), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return resident * float64(os.Getpagesize()) / (1 << 20)
}

// BenchmarkMemory reports what a row takes, and how long opening takes.
func BenchmarkMemory(b *testing.B) {
	log := testengines.Memory(b)
	s := open(b, log, Options{})
	populate(b, s, *benchRows)
	for b.Loop() {
		pages, size := int64(0), int64(0)
		for name, to := range map[string]*int64{"page_count": &pages, "page_size": &size} {
			if err := s.mirror.writer.each(context.Background(), scanInto(to), "PRAGMA "+name); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(pages*size)/float64(*benchRows), "mirror-B/row")
		began := time.Now()
		s2 := open(b, log, Options{})
		b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(*benchRows), "open-ns/row")
		if err := s2.Close(); err != nil {
			b.Fatal(err)
		}
		runtime.GC()
	}
}
