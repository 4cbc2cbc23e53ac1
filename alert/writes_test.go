package alert

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// BenchmarkWrites is what one client waits for, in memory and in a directory. Run the test
// programs of two commits by turns to compare them: the median of a run says more than its
// mean.
func BenchmarkWrites(b *testing.B) {
	for _, on := range []struct {
		name string
		open func(b *testing.B) mainstem.Log
	}{
		{"memory", func(b *testing.B) mainstem.Log { return testengines.Memory(b) }},
		{"os", directory},
	} {
		b.Run(on.name, func(b *testing.B) {
			b.Run("insert", func(b *testing.B) { benchmarkWrite(b, on.open(b), insertNew) })
			b.Run("again", func(b *testing.B) { benchmarkWrite(b, on.open(b), insertAgain) })
			b.Run("batch", func(b *testing.B) { benchmarkWrite(b, on.open(b), insertMany) })
			b.Run("update", func(b *testing.B) { benchmarkWrite(b, on.open(b), update) })
			b.Run("together", func(b *testing.B) { benchmarkWrite(b, on.open(b), together) })
			b.Run("beside", func(b *testing.B) { benchmarkBeside(b, on.open(b)) })
			b.Run("queried", func(b *testing.B) { benchmarkQueried(b, on.open(b)) })
			b.Run("clients", func(b *testing.B) { benchmarkClients(b, on.open(b)) })
		})
	}
}

// writeRows is how many rows there are before.
const writeRows = 5000

type write func(b *testing.B, s *Server, i int)

func insertNew(b *testing.B, s *Server, i int) {
	exec(b, s, statement(fmt.Sprint("new", i), fmt.Sprint("newgroup", i/100), i))
}

func insertAgain(b *testing.B, s *Server, i int) {
	exec(b, s, statement(fmt.Sprint("new", i%100), "newgroup", i))
}

func insertMany(b *testing.B, s *Server, i int) {
	rows := make([][]any, 100)
	for r := range rows {
		rows[r] = []any{fmt.Sprint("many", i, "-", r*2/3), fmt.Sprint("host", r), 1 + r%5, "Sit accusantium voluptatem perferendis."}
	}
	if _, err := s.internal.InsertRows(b.Context(), "alerts.status", []string{"Identifier", "Node", "Severity", "Summary"}, rows); err != nil {
		b.Fatal(err)
	}
}

func update(b *testing.B, s *Server, i int) {
	exec(b, s, "update alerts.status set Flash = ? where Serial = ?", i, 1+i%writeRows)
}

func together(b *testing.B, s *Server, i int) {
	if _, err := s.internal.Together(b.Context(), "update alerts.status set Flash = ? where Serial = ?; update alerts.status set Poll = Flash where Serial = ?",
		i, 1+i%writeRows, 1+i%writeRows); err != nil {
		b.Fatal(err)
	}
}

func benchmarkWrite(b *testing.B, log mainstem.Log, do write) {
	s := open(b, log, Options{})
	populate(b, s, writeRows)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		do(b, s, i)
		took = append(took, time.Since(began))
	}
	b.ReportMetric(median(took), "median-ns")
}

// benchmarkBeside inserts while somebody writes to another space of the log.
func benchmarkBeside(b *testing.B, log mainstem.Log) {
	s := open(b, log, Options{})
	populate(b, s, writeRows)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		batch := mainstem.NewBatch()
		batch.Ensure("other", mainstem.Policy{History: 1})
		batch.Put("other", []byte("key"), []byte("value"))
		if _, err := log.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		insertNew(b, s, i)
		took = append(took, time.Since(began))
	}
	b.ReportMetric(median(took), "median-ns")
}

// benchmarkQueried queries while another client inserts.
func benchmarkQueried(b *testing.B, log mainstem.Log) {
	s := open(b, log, Options{})
	populate(b, s, writeRows)
	ctx, stop := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := s.Exec(b.Context(), statement(fmt.Sprint("new", i%1000), fmt.Sprint("newgroup", i/100), i)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		query(b, s, selectStatement(fmt.Sprint("group-", i*31%(writeRows/10))))
		took = append(took, time.Since(began))
	}
	stop()
	wg.Wait()
	b.ReportMetric(median(took), "median-ns")
}

// benchmarkClients inserts from ten goroutines.
func benchmarkClients(b *testing.B, log mainstem.Log) {
	s := open(b, log, Options{})
	populate(b, s, writeRows)
	var i atomic.Int64
	b.SetParallelism(5)
	began := time.Now()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			insertNew(b, s, int(i.Add(1)))
		}
	})
	b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(b.N), "median-ns")
}
