package kafka

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/producer"
)

// Metrics receives what a server does. Its methods are called from many goroutines, in
// the middle of serving: they must be quick.
type Metrics interface {
	// Connected is called when a connection begins (1) and ends (-1).
	Connected(change int)
	// Refused is called when a connection is closed because there are too many.
	Refused()
	// NotCreated is called when a topic that a client named is not created because of
	// the limits of [Options].AutoCreateRate and AutoCreateTopics, or of one request.
	NotCreated()
	// Served is called when a request was answered: its API as Kafka calls it, how long
	// that took from its last byte read to the last of the answer written, waiting
	// included, and the bytes of both.
	Served(api string, took time.Duration, in, out int)
	// Produced is called with the records, and the bytes of their batches as they came,
	// that a produce request has stored.
	Produced(records, bytes int)
}

// noMetrics is for a server without metrics.
type noMetrics struct{}

func (noMetrics) Connected(int)                          {}
func (noMetrics) Refused()                               {}
func (noMetrics) NotCreated()                            {}
func (noMetrics) Served(string, time.Duration, int, int) {}
func (noMetrics) Produced(int, int)                      {}

// served records how long a request took whose answer has been written.
func (c *conn) served(key int16, begin time.Time, in, out int) {
	c.s.o.Metrics.Served(kmsg.NameForKey(key), time.Since(begin), in, out)
}

// countProduced records how much of a request was stored.
func (s *Server) countProduced(appends []producer.Append) {
	records, bytes := 0, 0
	for i := range appends {
		if a := &appends[i]; a.Code == 0 && len(a.Batch) >= recordbatch.HeaderSize {
			records += int(binary.BigEndian.Uint32(a.Batch[recordbatch.HeaderSize-4:])) // the header ends with the count
			bytes += len(a.Batch)
		}
	}
	if records > 0 {
		s.o.Metrics.Produced(records, bytes)
	}
}
