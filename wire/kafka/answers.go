package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Answers take their memory from the budget "kafka answers" until they are written:
//
//   - A fetch takes it before it reads the log, for as many bytes as it may read, twice: as
//     they are read and in the encoded answer. It gives the first half back once the answer
//     is encoded. It waits only while it has nothing; then for one batch at least.
//   - Of other requests, only those of wide can have answers that are much larger than the
//     request. How large is known when the answer is encoded; if there is no memory for it
//     then, it is dropped, and the request is served again when there is.
//
// A client that takes nothing of its answer loses its connection when others wait, see
// conn.progress.

const (
	// leastAnswer is how many bytes of record batches an answer with any may carry, if it
	// can have memory at all.
	leastAnswer = 64 << 10
	// answerCopies is how often batches are in memory on their way: as they were read, and
	// in the answer.
	answerCopies = 2
	// smallAnswer is the size up to which an answer is not counted: the number of
	// connections bounds that.
	smallAnswer = 16 << 10
	// answerWait is how long an answer waits for memory. Clients wait for 30 s and more.
	answerWait = 10 * time.Second
	// maxBuilding is how many answers to requests of wide are built at the same time.
	maxBuilding = 8
)

// wide are the requests whose answers may be much larger than they are. To serve one again
// does no harm.
var wide = map[int16]bool{
	int16(kmsg.Metadata): true, int16(kmsg.DescribeTopicPartitions): true, int16(kmsg.DescribeConfigs): true,
	int16(kmsg.DescribeLogDirs): true, int16(kmsg.OffsetFetch): true, int16(kmsg.ListGroups): true,
	int16(kmsg.DescribeGroups): true, int16(kmsg.ConsumerGroupDescribe): true, int16(kmsg.ListTransactions): true,
	int16(kmsg.DescribeTransactions): true, int16(kmsg.DescribeProducers): true, int16(kmsg.ListConfigResources): true,
	int16(kmsg.DescribeUserSCRAMCredentials): true,
}

// respond serves a request and returns its encoded answer, for which there is memory; nil
// if the client expects none.
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

// build serves a request and encodes the answer. If there is no memory for that, it
// returns how many bytes are wanted to build it again.
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
	default: // not much more than the request, or than what the fetch has taken
		c.carries.Take(more)
	}
	return h, out, 0, nil
}

// encode encodes an answer, after which nothing else of it is needed.
func (c *conn) encode(h header, resp kmsg.Response) []byte {
	out := appendAnswer(getBuffer(max(c.answered, c.batches+1<<10)), h.correlationID, resp)
	c.answered = len(out)
	c.dropBatches()
	if cap(out) <= max(smallAnswer, 4*len(out)) {
		return out
	}
	fits := append(getBuffer(len(out)), out...) // the answer before was larger
	putBuffer(out)
	return fits
}

// reserve lets the answer of a connection carry up to want more bytes of batches, and
// returns how many it may: half of what is left at most, but least. So clients that fetch
// much and read slowly make all answers smaller, and do not take all memory. Clients ask
// for more anyway. 0: there is no memory at the moment.
func (c *conn) reserve(want, least int) int {
	n := min(want, max(int(c.s.answers.Free()/answerCopies/2), least))
	if c.carries.Try(answerCopies * int64(n)) {
		return n
	}
	return 0
}

// unreserve notes that the answer carries n bytes of batches less than was reserved.
func (c *conn) unreserve(n int) { c.carries.Shrink(answerCopies * int64(n)) }

// acquire waits until the answer may have n more bytes of memory.
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

// dropBatches gives up the memory of the answer's batches, to which nothing else may refer
// any more.
func (c *conn) dropBatches() {
	for _, data := range c.fetched {
		putBuffer(data)
	}
	clear(c.fetched)
	c.fetched, c.batches = c.fetched[:0], 0
}

// delivered notes that the answer is gone, and takes back its memory.
func (c *conn) delivered() {
	c.dropBatches()
	c.carries.Release()
}
