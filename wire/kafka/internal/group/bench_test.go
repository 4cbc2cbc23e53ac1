package group

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

func benchWorld(b *testing.B) (*Coordinator, *catalog) {
	b.Helper()
	log, err := pebblelog.OpenMemory(&pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		b.Fatal(err)
	}
	topics := newCatalog(log)
	topics.create("t", 1000)
	c, err := Open(log, topics, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		c.Close()
		log.Close()
	})
	return c, topics
}

func BenchmarkOffsetCommit(b *testing.B) {
	c, _ := benchWorld(b)
	var n atomic.Int32
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		req := commitRequest("g", "t", n.Add(1), 1)
		for pb.Next() {
			if code := c.OffsetCommit(ctx, coord.Client{}, req).Topics[0].Partitions[0].ErrorCode; code != 0 {
				b.Error(code)
			}
		}
	})
}

// A heartbeat that changes nothing, of one member of many.
func BenchmarkConsumerHeartbeat(b *testing.B) {
	for _, members := range []int{1, 100} {
		b.Run(fmt.Sprint(members, " members"), func(b *testing.B) {
			c, _ := benchWorld(b)
			w := &world{t: b, Coordinator: c}
			var all []*reporter
			for i := range members {
				all = append(all, w.reporter("g", fmt.Sprint(i), "t").mustBeat(b))
			}
			for range 4 {
				for _, r := range all {
					r.mustBeat(b)
				}
			}
			req := all[0].request()
			b.ReportAllocs()
			for b.Loop() {
				var resp *kmsg.ConsumerGroupHeartbeatResponse
				if resp = c.ConsumerGroupHeartbeat(ctx, coord.Client{ID: "client", Host: "host"}, req); resp.ErrorCode != 0 {
					b.Fatal(*resp.ErrorMessage)
				}
			}
		})
	}
}
