package event_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// taggedEvent is small with n tags, one of which few other events have.
func taggedEvent(n, i int) []event.Event {
	ev := small
	for j := range n {
		ev.Tags = append(ev.Tags, [...]string{"customer:" + strconv.Itoa(i%1000), "region:west", "order:" + strconv.Itoa(i)}[j])
	}
	return []event.Event{ev}
}

// BenchmarkAppendTagged appends an event of 0, 1 and 3 tags to a store with an index. x-bare is
// against the same event in a store without one, in turns; B/event is what the index adds to
// the records of the log, before compression.
func BenchmarkAppendTagged(b *testing.B) {
	for _, tags := range []int{0, 1, 3} {
		b.Run(fmt.Sprintf("%d tags", tags), func(b *testing.B) {
			onEach(b, true, func(b *bench) {
				plain := open(b, b.bare, nil)
				b.must(b.s.CreateIndex(context.Background(), nil))
				b.turns(1, func(i int) {
					b.write("order-"+strconv.Itoa(i), event.NoStream, taggedEvent(tags, i))
				}, func(i int) {
					_, err := plain.Append(context.Background(), "order-"+strconv.Itoa(i), event.NoStream, taggedEvent(tags, i))
					b.must(err)
				})
				info, err := b.log.Space(context.Background(), "event.tag/orders")
				b.must(err)
				b.ReportMetric(float64(info.Bytes)/float64(b.N), "B/event")
			})
		})
	}
}

// BenchmarkCondition commits an event with a tag on condition of a query. x-bare is against the
// same append without a condition, in a store without an index.
func BenchmarkCondition(b *testing.B) {
	onEach(b, false, func(b *bench) {
		ctx := context.Background()
		plain := open(b, b.bare, nil)
		b.must(b.s.CreateIndex(ctx, nil))
		batch := mainstem.NewBatch()
		b.turns(1, func(i int) {
			batch.Reset()
			b.s.FailIf(batch, event.Query{{Types: []string{small.Type}, Tags: []string{"order:" + strconv.Itoa(i)}}}, 0)
			ev := small
			ev.Tags = []string{"order:" + strconv.Itoa(i)}
			b.s.AppendTo(batch, "order-"+strconv.Itoa(i), event.AnyVersion, []event.Event{ev})
			_, err := b.s.Commit(ctx, batch)
			b.must(err)
		}, func(i int) {
			_, err := plain.Append(ctx, "order-"+strconv.Itoa(i), event.AnyVersion, taggedEvent(1, i))
			b.must(err)
		})
	})
}

// BenchmarkQuery reads ten events of a tag among 20,000. x-feed is the time of the same query
// in a store without an index divided by it.
func BenchmarkQuery(b *testing.B) {
	onEach(b, false, func(b *bench) {
		ctx := context.Background()
		plain := open(b, b.bare, nil)
		b.must(b.s.CreateIndex(ctx, nil))
		const events, step = 20_000, 100
		for i := 0; i < events; i += step {
			var evs []event.Event
			for j := range step {
				ev := small
				ev.Tags = []string{"order:" + strconv.Itoa((i+j)%(events/10))}
				evs = append(evs, ev)
			}
			for _, s := range []*event.Store{b.s, plain} {
				_, err := s.Append(ctx, "orders-1", event.AnyVersion, evs)
				b.must(err)
			}
		}
		read := func(s *event.Store, i int) {
			n := 0
			for _, err := range s.Query(ctx, event.Query{{Types: []string{small.Type}, Tags: []string{"order:" + strconv.Itoa(i%1000)}}}, nil) {
				b.must(err)
				n++
			}
			if n != 10 {
				b.Fatalf("%d events", n)
			}
		}
		for i := range b.N {
			read(b.s, i)
		}
		b.StopTimer()
		const few = 5
		start := time.Now()
		for i := range few {
			read(plain, i)
		}
		b.ReportMetric(time.Since(start).Seconds()/few/(b.Elapsed().Seconds()/float64(b.N)), "x-feed")
	})
}
