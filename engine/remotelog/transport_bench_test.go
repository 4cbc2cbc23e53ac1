package remotelog_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
)

// transports are the ways to one served log, to be compared in one run.
func transports(b *testing.B) (sessions, rpc *remotelog.Log) {
	b.Helper()
	s := serve(b, behind(b), nil)
	return open(b, s.URL, &remotelog.Options{Transport: remotelog.Sessions}), open(b, s.URL, &remotelog.Options{Transport: remotelog.RPC})
}

// The bytes that a get of one record takes in a session.
const (
	getRequest = 12 + 16 + 13
	getAnswer  = 12 + 99
)

// pingPong is a TCP connection to an echo that does nothing: what every protocol of a
// request and an answer costs at least.
type pingPong struct {
	conn    net.Conn
	request []byte
	answer  []byte
}

func newPingPong(b *testing.B, answerSize int) *pingPong {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		echo(other, answerSize)
	}()
	b.Cleanup(func() { _ = conn.Close(); _ = l.Close(); <-done; _ = other.Close() })
	return &pingPong{conn, make([]byte, getRequest), make([]byte, answerSize)}
}

// echo answers requests on a connection until that ends.
func echo(conn net.Conn, answerSize int) {
	request, answer := make([]byte, getRequest), make([]byte, answerSize)
	for {
		if _, err := io.ReadFull(conn, request); err != nil {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

func (p *pingPong) once() error {
	if _, err := p.conn.Write(p.request); err != nil {
		return err
	}
	_, err := io.ReadFull(p.conn, p.answer)
	return err
}

// inTurn runs each of the works b.N times, in turn, and reports the quantiles of each, and
// those of the others in relation to the first.
func inTurn(b *testing.B, names []string, works []func() error) {
	b.Helper()
	samples := make([][]time.Duration, len(works))
	for _, work := range works { // connect, and warm up
		for range 100 {
			if err := work(); err != nil {
				b.Fatal(err)
			}
		}
	}
	const round = 20
	b.ResetTimer()
	for done := 0; done < b.N; done += round {
		for i, work := range works {
			for range min(round, b.N-done) {
				began := time.Now()
				if err := work(); err != nil {
					b.Fatal(err)
				}
				samples[i] = append(samples[i], time.Since(began))
			}
		}
	}
	b.StopTimer()
	for i, s := range samples {
		slices.Sort(s)
		b.ReportMetric(micros(s, 0.5), names[i]+"-p50-µs")
		b.ReportMetric(micros(s, 0.99), names[i]+"-p99-µs")
		if i > 0 {
			b.ReportMetric(micros(s, 0.5)/micros(samples[0], 0.5), names[i]+"-x-p50")
		}
	}
	b.ReportMetric(0, "ns/op") // of all together: says nothing
}

// A get over a session and over RPC beside a TCP ping-pong of the same bytes.
func BenchmarkTransportGet(b *testing.B) {
	sessions, rpc := transports(b)
	ping := newPingPong(b, getAnswer)
	inTurn(b, []string{"tcp", "session", "rpc"}, []func() error{ping.once, get(sessions), get(rpc)})
}

func get(log mainstem.Log) func() error {
	key := []byte("key-0500")
	return func() error {
		_, err := log.Get(context.Background(), "s", key)
		return err
	}
}

// noise returns bytes that do not compress. Pebble decides what to compact by compressed
// bytes: gigabytes of zeros stay in its first level, which each compaction then writes anew.
func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it does not fail
	return b
}

// Gets of large values beside a TCP ping-pong of answers of the same size.
func BenchmarkTransportGetLarge(b *testing.B) {
	log := behind(b)
	there := open(b, serve(b, log, nil).URL, &remotelog.Options{Transport: remotelog.Sessions})
	for _, size := range []int{16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20} {
		batch := mainstem.NewBatch()
		batch.Put("s", []byte("key-0500"), noise(size))
		if _, err := log.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		ping := newPingPong(b, getAnswer+size)
		b.Run(fmt.Sprintf("%d KiB", size>>10), func(b *testing.B) {
			inTurn(b, []string{"tcp", "session"}, []func() error{ping.once, get(there)})
		})
	}
}

// Puts of large values over a session beside those without a server.
func BenchmarkTransportPutLarge(b *testing.B) {
	log := behind(b)
	there := open(b, serve(b, log, nil).URL, &remotelog.Options{Transport: remotelog.Sessions})
	for _, size := range []int{16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20} {
		b.Run(fmt.Sprintf("%d KiB", size>>10), func(b *testing.B) {
			inTurn(b, []string{"local", "session"}, []func() error{commit(log, size), commit(there, size)})
		})
	}
}

// The allocations of a get, of both sides.
func BenchmarkTransportGetAllocations(b *testing.B) {
	sessions, rpc := transports(b)
	for _, c := range []struct {
		name string
		log  mainstem.Log
	}{{"session", sessions}, {"rpc", rpc}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			work := get(c.log)
			for range b.N {
				if err := work(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTransportPut(b *testing.B) {
	sessions, rpc := transports(b)
	ping := newPingPong(b, getAnswer)
	inTurn(b, []string{"tcp", "session", "rpc"}, []func() error{ping.once, commit(sessions, 61), commit(rpc, 61)})
}

func commit(log mainstem.Log, size int) func() error {
	batch, value := mainstem.NewBatch(), noise(size)
	return func() error {
		batch.Reset()
		batch.Put("s", []byte("key-0500"), value)
		_, err := log.Commit(context.Background(), batch)
		return err
	}
}

func BenchmarkTransportGetMany100(b *testing.B) {
	sessions, rpc := transports(b)
	var keys [][]byte
	for i := range 100 {
		keys = append(keys, fmt.Appendf(nil, "key-%04d", i*7))
	}
	many := func(log mainstem.Log) func() error {
		return func() error { return all(log.GetMany(context.Background(), "s", keys), 100) }
	}
	inTurn(b, []string{"session", "rpc"}, []func() error{many(sessions), many(rpc)})
}

func all(records func(func(mainstem.Record, error) bool), want int) error {
	n := 0
	for _, err := range records {
		if err != nil {
			return err
		}
		n++
	}
	if n != want {
		return fmt.Errorf("%d records, want %d", n, want)
	}
	return nil
}

// many returns clients of a log with 100,000 records of 61 bytes.
func many(b *testing.B) (sessions, rpc *remotelog.Log, records int) {
	b.Helper()
	log := behind(b)
	batch := mainstem.NewBatch()
	batch.Ensure("bucket", mainstem.Policy{History: 1})
	for i := range 100 {
		for j := range 1000 {
			if i < 99 { // the first thousand of s are there
				batch.Put("s", fmt.Appendf(nil, "more-%05d", i*1000+j), make([]byte, 61))
			}
			batch.Put("bucket", fmt.Appendf(nil, "more-%05d", i*1000+j), make([]byte, 61))
		}
		if _, err := log.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		batch.Reset()
	}
	s := serve(b, log, nil)
	return open(b, s.URL, &remotelog.Options{Transport: remotelog.Sessions}), open(b, s.URL, &remotelog.Options{Transport: remotelog.RPC}), 100_000
}

// Records of a scan and of a feed in a second, on one connection.
func BenchmarkTransportStreams(b *testing.B) {
	sessions, rpc, records := many(b)
	for _, c := range []struct {
		name string
		log  mainstem.Log
	}{{"session", sessions}, {"rpc", rpc}} {
		rate := func(b *testing.B, seq func(func(mainstem.Record, error) bool)) {
			for range b.N {
				if err := all(seq, records); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(records*b.N)/b.Elapsed().Seconds(), "records/s")
		}
		b.Run("scan/"+c.name, func(b *testing.B) { rate(b, c.log.Scan(b.Context(), "bucket", mainstem.Range{})) })
		b.Run("scan-all-history/"+c.name, func(b *testing.B) { rate(b, c.log.Scan(b.Context(), "s", mainstem.Range{})) })
		b.Run("feed/"+c.name, func(b *testing.B) {
			rate(b, c.log.Feed(b.Context(), mainstem.Filter{Spaces: []string{"s"}}))
		})
	}
}

// A get alone, and beside scans of 16 MB in the same session.
func BenchmarkTransportGetBesideStream(b *testing.B) {
	log := behind(b)
	batch := mainstem.NewBatch()
	batch.Ensure("large", mainstem.Policy{})
	for i := range 256 {
		batch.Put("large", fmt.Appendf(nil, "%d", i), make([]byte, 64<<10))
	}
	if _, err := log.Commit(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	there := open(b, serve(b, log, nil).URL, &remotelog.Options{Transport: remotelog.Sessions})
	work := get(there)
	for _, beside := range []bool{false, true} {
		b.Run(map[bool]string{false: "alone", true: "beside"}[beside], func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan struct{})
			scans := 0
			go func() {
				defer close(done)
				for beside && ctx.Err() == nil && all(there.Scan(ctx, "large", mainstem.Range{}), 256) == nil {
					scans++
				}
			}()
			b.ResetTimer()
			inTurn(b, []string{"get"}, []func() error{work})
			cancel()
			<-done
			b.ReportMetric(float64(scans), "scans")
		})
	}
}
