package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// An answer has memory of the budget "kafka answers" until it is written, in conn.carries:
//
//   - A fetch reserves before it reads the log, twice the bytes that it may read: for the
//     batches as read, and for the encoded answer. When the answer is encoded, the batches
//     are released and half of the reservation is given back. A fetch waits for memory only
//     while its answer has no batches: for leastAnswer bytes, or a first batch that is
//     larger. Else it answers with the batches that it has.
//   - The answer to an API of wide may have much data of the log. Its size is known
//     when it is encoded. If there is no memory for it then, the answer is dropped, respond
//     waits for as many bytes, and the request is served again. At most maxBuilding such
//     answers are built at the same time, because nothing is reserved meanwhile.
//   - All other answers take their memory when they are encoded, beyond the limit if need be.
//
// Besides, a request reserves the memory that its answer may take because of the elements and
// names of the request, of the budget "kafka requests" before it is served, see answer_costs.go.
// So the answers that are being built are bounded, too, except for data of the log.
//
// An answer of up to smallAnswer bytes needs no reservation. A client that takes nothing of
// its answer is disconnected when others wait for memory, see conn.progress.

const (
	// leastAnswer is the number of bytes of record batches that a fetch reserves at least,
	// unless it asks for less.
	leastAnswer = 64 << 10
	// answerCopies is how many copies of its batches a fetch has in memory: as read, and in
	// the encoded answer.
	answerCopies = 2
	// smallAnswer is the size in bytes up to which an answer needs no reservation: the limit
	// of connections bounds these.
	smallAnswer = 16 << 10
	// answerWait is how long an answer waits for memory. It is less than the request timeout
	// of clients, which is 30 s and more.
	answerWait = 10 * time.Second
	// maxBuilding is how many requests of wide are served at the same time.
	maxBuilding = 8
)

// wide are the APIs whose answers have data of the log that the request does not limit. Serving
// such a request again does no harm: they only read, except that Metadata may create topics,
// and finds those that it has created.
var wide = map[int16]bool{
	int16(kmsg.Metadata): true, int16(kmsg.DescribeTopicPartitions): true, int16(kmsg.DescribeConfigs): true,
	int16(kmsg.DescribeLogDirs): true, int16(kmsg.OffsetFetch): true, int16(kmsg.ListGroups): true,
	int16(kmsg.DescribeGroups): true, int16(kmsg.ConsumerGroupDescribe): true, int16(kmsg.ListTransactions): true,
	int16(kmsg.DescribeTransactions): true, int16(kmsg.DescribeProducers): true, int16(kmsg.ListConfigResources): true,
	int16(kmsg.DescribeUserSCRAMCredentials): true,
}

// respond serves a request and returns its encoded answer, whose memory is reserved in
// c.carries; nil if the client expects none. An error ends the connection.
func (c *conn) respond(frame []byte) (header, []byte, error) {
	for {
		h, out, want, err := c.build(frame)
		if want == 0 || err != nil {
			return h, out, err
		}
		if err := c.acquire(c.ctx, int64(want)-c.carries.Size()); err != nil {
			return h, nil, fmt.Errorf("no memory for an answer of %d bytes: %w", want, err)
		}
	}
}

// build serves a request, encodes the answer and adjusts c.carries to its size. If the API
// is one of wide and the memory is not free, it drops the answer and returns in want how many
// bytes must be reserved before the next call.
func (c *conn) build(frame []byte) (h header, out []byte, want int, err error) {
	again := wide[apiOf(frame)]
	if again {
		select {
		case c.s.building <- struct{}{}:
			defer func() { <-c.s.building }()
		case <-c.s.ctx.Done():
			return h, nil, 0, errDrained
		}
	}
	h, resp, err := c.answer(frame)
	if err != nil || resp == nil {
		return h, nil, 0, err
	}
	out = c.encode(h, resp)
	switch more := int64(cap(out)) - c.carries.Size(); {
	case cap(out) <= smallAnswer:
		c.carries.Release()
	case more <= 0:
		c.carries.Shrink(-more)
	case c.carries.Try(more):
	case again:
		want = cap(out)
		putBuffer(out)
		return h, nil, want, nil
	default: // taken to be little more than the reservation of the request, or of the fetch
		c.carries.Take(more)
	}
	c.request.Shrink(int64(c.expects)) // not before a second call, which would wait for it with c.carries
	c.expects = 0
	return h, out, 0, nil
}

// encode encodes an answer and releases its record batches. The result is from getBuffer, and
// at most 4 times as large as the answer, or smallAnswer.
func (c *conn) encode(h header, resp kmsg.Response) []byte {
	out := appendAnswer(getBuffer(max(c.answered, c.batches+1<<10)), h.correlationID, resp)
	c.answered = len(out)
	c.dropBatches()
	if cap(out) <= max(smallAnswer, 4*len(out)) {
		return out
	}
	fits := append(getBuffer(len(out)), out...) // the guess, the size of the last answer, was too large
	putBuffer(out)
	return fits
}

// reserve reserves memory for up to want more bytes of batches in the answer, and returns for
// how many. It takes at most half of the free memory, or the memory of least bytes if that is
// more. So clients that fetch much and read slowly make all answers smaller and do not take
// all memory; a client that gets less asks again. reserve does not wait: 0 means that there
// is no memory at the moment.
func (c *conn) reserve(want, least int) int {
	n := min(want, max(int(c.s.answers.Free()/answerCopies/2), least))
	if c.carries.Try(answerCopies * int64(n)) {
		return n
	}
	return 0
}

// unreserve gives back the memory of n bytes of batches.
func (c *conn) unreserve(n int) { c.carries.Shrink(answerCopies * int64(n)) }

// acquire waits until n more bytes of memory are reserved for the answer, at most answerWait.
// It fails when ctx ends, or when the server shuts down.
func (c *conn) acquire(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWait, fmt.Errorf("waited %v", answerWait))
	defer cancel()
	defer context.AfterFunc(c.s.ctx, cancel)()
	err := c.carries.Acquire(ctx, n)
	if err != nil && c.s.ctx.Err() == nil {
		c.s.o.Logger.LogAttrs(c.ctx, slog.LevelWarn, "kafka answer without memory: clients read too slowly, or the server has too little memory",
			slog.Any("client", c.nc.RemoteAddr()), slog.String("id", c.client.ID), slog.Any("error", err))
	}
	return err
}

// dropBatches puts the buffers of the answer's batches back. Nothing may refer to them any
// more. Their reservation is left to the caller.
func (c *conn) dropBatches() {
	for _, data := range c.fetched {
		putBuffer(data)
	}
	clear(c.fetched)
	c.fetched, c.batches = c.fetched[:0], 0
}

// delivered releases the batches and the reservation of the answer, after it was written or
// given up.
func (c *conn) delivered() {
	c.dropBatches()
	c.carries.Release()
}
