package event_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"

	"github.com/mainstemdev/mainstem"
)

// mapStore is an event store as one writes it in an afternoon, and as the contender
// map-memory of the benchmarks is: maps and slices under a lock, gone with the process. It
// copies what it is given and what it gives, and gives IDs, versions, positions and times.
type mapStore struct {
	mu      sync.RWMutex
	streams map[string][]*mapEvent
	log     []*mapEvent
}

type mapEvent struct {
	event.Recorded
	id string
}

// mapID returns a random UUID in its usual form.
func mapID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it does not fail
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

func (s *mapStore) append(stream string, events []event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, now := s.streams[stream], time.Now()
	for _, e := range events {
		r := &mapEvent{event.Recorded{Event: e, Stream: stream, Version: mainstem.Version(len(held) + 1), Position: mainstem.Position(len(s.log) + 1), Time: now}, mapID()}
		r.Data = bytes.Clone(e.Data)
		held, s.log = append(held, r), append(s.log, r)
	}
	s.streams[stream] = held
}

func (s *mapStore) load(stream string) []event.Recorded {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []event.Recorded
	for _, r := range s.streams[stream] {
		c := r.Recorded
		c.Data = bytes.Clone(c.Data)
		out = append(out, c)
	}
	return out
}

func (s *mapStore) last() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.log)
}

// beside runs ours and theirs in turns and reports x-map: the time of ours divided by that
// of theirs, the median of all turns, so that a machine with other work disturbs little.
func (b *bench) beside(turn int, ours, theirs func(i int)) {
	var ratios, each []float64
	took := func(f func(int), from int) float64 {
		start := time.Now()
		for i := from; i < from+turn; i++ {
			f(i)
		}
		return float64(time.Since(start).Nanoseconds()) / float64(turn)
	}
	for i := 0; i < b.N; i += turn {
		a := took(ours, i)
		ratios, each = append(ratios, a/took(theirs, i)), append(each, a)
	}
	slices.Sort(ratios)
	slices.Sort(each)
	b.ReportMetric(ratios[len(ratios)/2], "x-map")
	b.ReportMetric(each[len(each)/2], "ns/op")
}

// BenchmarkBesideMap compares the store with a Go map under a mutex in the same run.
func BenchmarkBesideMap(b *testing.B) {
	onEach(b, false, func(b *bench) {
		name := b.Name()
		run := func(title string, body func(b *bench, m *mapStore)) {
			b.Run(title, func(tb *testing.B) {
				o := &pebblelog.Options{Durability: mainstem.OS}
				log, err := pebblelog.OpenMemory(o)
				if name[len(name)-2:] == "os" {
					log.Close()
					log, err = pebblelog.Open(tb.TempDir(), o)
				}
				x := &bench{B: tb, log: log}
				x.must(err)
				tb.Cleanup(func() { log.Close() })
				x.s = open(tb, log, nil)
				body(x, &mapStore{streams: map[string][]*mapEvent{}})
			})
		}
		for _, n := range []int{1, 10, 100} {
			evs := batchOf(n)
			run(fmt.Sprintf("append-%d", n), func(b *bench, m *mapStore) {
				b.beside(max(200/n, 10), func(i int) { b.write("bench-"+strconv.Itoa(i), event.AnyVersion, evs) },
					func(i int) { m.append("bench-"+strconv.Itoa(i), evs) })
			})
		}
		for _, n := range []int{10, 100, 1000} {
			run(fmt.Sprintf("load-%d", n), func(b *bench, m *mapStore) {
				for i := range 100 {
					b.write("bench-"+strconv.Itoa(i), event.NoStream, batchOf(n))
					m.append("bench-"+strconv.Itoa(i), batchOf(n))
				}
				b.beside(max(1000/n, 5), func(i int) { b.load("bench-"+strconv.Itoa(i%100), n) },
					func(i int) { _ = m.load("bench-" + strconv.Itoa(i%100)) })
			})
		}
		run("info", func(b *bench, m *mapStore) {
			b.write("bench-1", event.NoStream, batchOf(50))
			m.append("bench-1", batchOf(50))
			b.beside(500, func(int) { _, err := b.s.StreamInfo(context.Background(), "bench-1"); b.must(err) }, func(int) { _ = m.last() })
		})
		run("last", func(b *bench, m *mapStore) {
			b.write("bench-1", event.NoStream, batchOf(50))
			b.beside(500, func(int) { _, err := b.s.LastPosition(context.Background()); b.must(err) }, func(int) { _ = m.last() })
		})
	})
}

// BenchmarkDisk reports how many bytes of a directory that was closed an event takes.
func BenchmarkDisk(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("append-%d", n), func(b *testing.B) {
			dir := b.TempDir()
			log, err := pebblelog.Open(dir, &pebblelog.Options{Durability: mainstem.OS})
			if err != nil {
				b.Fatal(err)
			}
			s, evs := open(b, log, nil), batchOf(n)
			for i := range b.N {
				if _, err := s.Append(b.Context(), "bench-"+strconv.Itoa(i), event.AnyVersion, evs); err != nil {
					b.Fatal(err)
				}
			}
			if err := log.Close(); err != nil {
				b.Fatal(err)
			}
			size := int64(0)
			err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				info, err := d.Info()
				if err == nil {
					size += info.Size()
				}
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(size)/float64(b.N*n), "B/event")
		})
	}
}
