package kafka

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/producer"
)

// Metrics is called by a server for each event that it counts. Its methods are called from
// many goroutines, by those that serve requests: they must be quick.
type Metrics interface {
	// Connected is called when a connection begins (1) and ends (-1).
	Connected(change int)
	// Refused is called when a connection is closed because there are too many.
	Refused()
	// NotCreated is called when a topic that a client named is not created because of
	// the limits of [Options].AutoCreateRate and AutoCreateTopics, or of one request.
	NotCreated()
	// Served is called after a request: the name of its API; the time from the last byte of
	// the request to the last byte of the answer, or to the failure to write it, waiting
	// included; the bytes of the request without its size, and of the answer with its size, 0
	// if it has none. It is not called if the connection ends before there is an answer.
	Served(api string, took time.Duration, in, out int)
	// Produced is called after a Produce request with the number of records, and the bytes
	// of their batches as received, that were accepted; duplicates of an idempotent producer
	// count again.
	Produced(records, bytes int)
}

// noMetrics is a Metrics that counts nothing.
type noMetrics struct{}

func (noMetrics) Connected(int)                          {}
func (noMetrics) Refused()                               {}
func (noMetrics) NotCreated()                            {}
func (noMetrics) Served(string, time.Duration, int, int) {}
func (noMetrics) Produced(int, int)                      {}

// served reports a request to Metrics.Served.
func (c *conn) served(key int16, begin time.Time, in, out int) {
	c.s.o.Metrics.Served(kmsg.NameForKey(key), time.Since(begin), in, out)
}

// countProduced reports the accepted batches of a request to Metrics.Produced.
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
