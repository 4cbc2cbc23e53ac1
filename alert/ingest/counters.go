package ingest

import "sync/atomic"

// Counters are what a receiver has done since it was opened. All but Waiting and
// Connections only grow.
type Counters struct {
	Received  int64 // messages, or alerts of requests
	Bytes     int64
	Malformed int64 // messages of no known form (taken as text), and requests that were refused
	Truncated int64 // messages that were too long: their beginnings were taken

	Written   int64 // rows that the sink has
	Dropped   int64 // messages, by rules of the mapping
	Unmapped  int64 // messages that did not fit the mapping, and alerts that are none
	Rejected  int64 // rows that the sink refused
	Overflow  int64 // messages and alerts that came when the queue was full, and senders could not wait, or no more
	Lost      int64 // rows that were waiting when the receiver had to end
	Batches   int64 // inserts that succeeded
	Retries   int64 // inserts that failed and were tried again
	Waiting   int64 // rows in the queue, now
	Requests  int64 // of a webhook
	Abandoned int64 // requests whose client went before its alerts were written

	Connections        int64 // that are open, now
	ConnectionsRefused int64 // there were too many
	ConnectionsBroken  int64 // ended within a message, or were not framed
}

// counting is the counters as they are counted.
type counting struct {
	received, bytes, malformed, truncated                        atomic.Int64
	written, dropped, unmapped, rejected, overflow, lost         atomic.Int64
	batches, retries, waiting, requests, abandoned               atomic.Int64
	connections, connectionsRefused, connectionsBroken, sequence atomic.Int64
}

func (c *counting) read() Counters {
	return Counters{
		Received: c.received.Load(), Bytes: c.bytes.Load(), Malformed: c.malformed.Load(), Truncated: c.truncated.Load(),
		Written: c.written.Load(), Dropped: c.dropped.Load(), Unmapped: c.unmapped.Load(), Rejected: c.rejected.Load(),
		Overflow: c.overflow.Load(), Lost: c.lost.Load(), Batches: c.batches.Load(), Retries: c.retries.Load(),
		Waiting: c.waiting.Load(), Requests: c.requests.Load(), Abandoned: c.abandoned.Load(), Connections: c.connections.Load(),
		ConnectionsRefused: c.connectionsRefused.Load(), ConnectionsBroken: c.connectionsBroken.Load(),
	}
}

// next returns a number that tells one message from those before it: it fits a column
// of 32 bits.
func (c *counting) next() int64 { return c.sequence.Add(1) & (1<<31 - 1) }
