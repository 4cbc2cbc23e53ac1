package remotelog_test

import (
	"context"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
)

// idleClients is a variable of the environment that makes BenchmarkIdleSessions the
// process of the clients: it holds the address of the server.
const idleClients = "MAINSTEM_BENCH_IDLE_CLIENTS"

// idleSessions is how many clients wait, each with a connection of its own.
const idleSessions = 1000

// What a client costs that waits for the next record, in the memory and processor time of
// the server. The clients are in a process of their own, so that theirs does not count.
func BenchmarkIdleSessions(b *testing.B) {
	if url := os.Getenv(idleClients); url != "" {
		beIdle(b, url)
		return
	}
	log := behind(b)
	s := serve(b, log, nil)
	before := heldMemory()

	lines, end := startBenchmark(b, "BenchmarkIdleSessions", idleClients+"="+s.URL)
	ready := 0
	for ready < idleSessions && lines.Scan() {
		if lines.Text() == "waits" {
			ready++
		}
	}
	if ready < idleSessions {
		b.Errorf("%d of %d clients wait", ready, idleSessions)
	}

	held := heldMemory() - before
	cpu := processorTime(b)
	const idle = 5 * time.Second
	rest, cancel := context.WithTimeout(b.Context(), idle) // what is measured is that nothing happens
	<-rest.Done()
	cancel()
	cpu = processorTime(b) - cpu
	end()
	b.ReportMetric(float64(held)/(1<<20), "MiB")
	b.ReportMetric(float64(held)/idleSessions/(1<<10), "KiB/session")
	b.ReportMetric(100*cpu.Seconds()/idle.Seconds(), "%cpu")
	b.ReportMetric(0, "ns/op") // says nothing
}

// beIdle opens the clients, and closes them when standard input ends.
func beIdle(b *testing.B, url string) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var followers sync.WaitGroup
	defer followers.Wait()
	for i := range idleSessions {
		log, err := remotelog.Open(url, &remotelog.Options{Transport: remotelog.Sessions})
		if err != nil {
			b.Fatal(err)
		}
		defer log.Close()
		head, err := log.Head(ctx)
		if err != nil {
			b.Fatalf("client %d: %v", i, err)
		}
		followers.Go(func() {
			for _, err := range log.Feed(ctx, mainstem.Filter{After: head - 1, Follow: true}) {
				if err != nil {
					return
				}
				_, _ = os.Stdout.WriteString("\nwaits\n") // on a line of its own: the benchmark's name stands before the first
			}
		})
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	cancel()
}

// heldMemory is the memory of the heap and of stacks that is in use.
func heldMemory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
