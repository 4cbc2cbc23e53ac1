package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/producer"
)

// Fetch, versions 4 to 18.
//
//	v4   record batches, isolation levels (KIP-98)
//	v5   the start offset of a partition (KIP-107)
//	v7   fetch sessions (KIP-227), see fetch_session.go
//	v9   leader epochs (KIP-320)
//	v11  the rack of the client (KIP-392): not used, there is one replica
//	v12  diverging epochs of logs (KIP-595): there are none
//	v13  topics by ID (KIP-516)
//	v15  the state of a replica (KIP-903): no replica fetches here
//
// Later versions add fields for brokers, which are not used.
//
// A request is served in these steps:
//
//  1. The session gives the partitions to fetch, the parts (fetch_session.go).
//  2. begin finds the topic of each part and reads it, in the order of the session, until
//     the answer has maxBytes. A part behind that gets only its offsets.
//  3. If there are fewer than MinBytes, no limit has left out batches and no part has failed,
//     wait reads the parts on as they grow (fetch_wait.go).
//  4. fill writes the answer; of an incremental session only the parts that have changed.
//
// For each read, memory is reserved first (afford, answers.go). The first batch of an answer
// is carried whatever its size, so that a consumer can always continue (KIP-74): the read
// reports its size, and memory for it is reserved before it is read again.
//
// Invariants:
//
//   - fetch.bytes is the sum of the lengths of chunk.Data of all parts.
//   - conn.carries has at least answerCopies times as many bytes.

// fetchPart is one partition of a fetch. It belongs to the goroutine of the connection, and
// stays in the session for the next fetch.
type fetchPart struct {
	name   string // of the topic; empty if the client gave its ID
	id     topic.ID
	num    int32
	offset int64 // of the first record to read
	epoch  int32 // the leader epoch that the client sent, -1 for none
	limit  int   // bytes of batches for this part; the first batch of an answer may be larger

	// The result of the reads of this fetch. rotate clears it, but for code and stable.
	src     partition.Reader
	code    int16              // the error; 0: the fields that follow are valid
	chunk   partition.Chunk    // the batches from offset to Next; Data is from getBuffer, or the reader's
	stable  int64              // the last stable offset, at most chunk.End
	aborted []producer.Aborted // transactions that touch chunk; only for read-committed fetches

	lastReported lastReported
	expect       int // bytes found by the last fetch, as a guess at the next
}

// lastReported holds the offsets of a partition that the client of a fetch session got last.
type lastReported struct {
	any                bool // false: nothing or an error
	start, end, stable int64
}

// fetch is one Fetch request. It belongs to the goroutine of the connection.
type fetch struct {
	s         *Server
	c         *conn
	parts     []*fetchPart
	committed bool // isolation level read_committed
	maxBytes  int  // of batches in the answer; the first batch may be larger
	bytes     int  // of batches in the parts
	full      bool // a limit has left out batches that are there: the answer is due at once
	failed    bool // a part has an error, or there is no memory: the answer is due at once
}

// fetchRecords answers with whole record batches from the offsets asked for: at once if there
// are MinBytes, else when there are, when a limit leaves out batches, when the maximum wait of
// the request is over, when a part fails, or when others need the memory.
func (s *Server) fetchRecords(ctx context.Context, c *conn, req *kmsg.FetchRequest) *kmsg.FetchResponse {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	session, parts, code := c.fetch.resume(req)
	if code != 0 {
		resp.ErrorCode = code
		return resp
	}
	f := &fetch{s: s, c: c, parts: parts, committed: req.IsolationLevel == readCommitted, maxBytes: s.o.MaxFetch}
	if req.MaxBytes > 0 {
		f.maxBytes = min(f.maxBytes, int(req.MaxBytes))
	}
	for _, p := range parts {
		f.begin(ctx, p)
	}
	// A disconnect is not noticed if the client has already sent its next request, so a fetch
	// does not wait longer than a connection may be idle.
	if wait := min(time.Duration(req.MaxWaitMillis)*time.Millisecond, s.o.IdleTimeout); wait > 0 && !f.enough(req.MinBytes) {
		c.waiting(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			f.wait(ctx, req.MinBytes)
		})
	}
	resp.SessionID = session.id
	f.fill(resp, session)
	return resp
}

// enough returns whether the answer is due. There are whole batches in it, so that it may be
// full with fewer than MinBytes.
func (f *fetch) enough(minBytes int32) bool {
	return f.failed || f.full || f.bytes >= int(minBytes)
}

// begin finds the topic of a part and reads it for the first time in this fetch.
func (f *fetch) begin(ctx context.Context, p *fetchPart) {
	p.src, p.code, p.chunk, p.aborted = nil, 0, partition.Chunk{Next: p.offset}, nil
	src, err := f.s.recently(ctx, p.name, p.id)
	if err != nil {
		f.fail(p, err)
		if p.name == "" && errors.Is(err, mainstem.ErrNotFound) {
			p.code = kerr.UnknownTopicID.Code
		}
		return
	}
	if p.code = epochCode(p.epoch); p.code != 0 {
		f.failed = true
		return
	}
	p.src = src
	f.read(ctx, p)
}

// read reads a part on from chunk.Next. An error becomes the part's code, unless ctx has ended:
// then the wait is over, and the part keeps what it has.
func (f *fetch) read(ctx context.Context, p *fetchPart) {
	if ctx.Err() != nil {
		return
	}
	had := len(p.chunk.Data)
	err := f.readOn(ctx, p)
	f.bytes += len(p.chunk.Data) - had
	if err != nil && ctx.Err() == nil {
		f.fail(p, err)
	}
}

// fail makes err the result of a part, in place of its batches.
func (f *fetch) fail(p *fetchPart, err error) {
	f.bytes -= len(p.chunk.Data)
	f.c.unreserve(len(p.chunk.Data))
	putBuffer(p.chunk.Data)
	p.chunk, p.aborted = partition.Chunk{}, nil
	if p.code = f.s.failure(f.c, "Fetch", err); p.code == kerr.RequestTimedOut.Code {
		p.code = kerr.KafkaStorageError.Code // Java's consumer fails on a code that Kafka does not send here
	}
	f.failed = true
}

// readOn appends the batches from chunk.Next on to those that the part has. Only the offsets
// are read if the answer or the part is full or there is no memory. If it fails, the part has
// what it had before.
func (f *fetch) readOn(ctx context.Context, p *fetchPart) error {
	had := len(p.chunk.Data)
	limit := min(p.limit-had, f.maxBytes-f.bytes)
	if f.bytes > 0 && limit <= 0 {
		return f.leaveOut(ctx, p)
	}
	limit, err := f.afford(ctx, p, max(limit, 1), leastAnswer)
	if err != nil || limit == 0 {
		return err
	}
	reserved := limit
	defer func() { f.c.unreserve(reserved - (len(p.chunk.Data) - had)) }()
	o := partition.ReadOptions{MaxBytes: limit, MaxFirst: limit, LeaderEpoch: leaderEpoch}
	t, native := p.src.(*topic.Topic)
	committed := f.committed && native // only topics of the catalog have transactions
	if committed {
		if err := f.ends(ctx, p); err != nil || p.chunk.Next >= p.stable {
			return err
		}
		o.Before = p.stable
	}
	chunk, err := f.readChunk(ctx, p, &o)
	if err != nil {
		return err
	}
	for chunk.TooLarge > 0 && f.bytes == 0 { // the first batch of an answer is carried whatever its size; it may change between reads
		f.c.unreserve(reserved)
		reserved, err = f.afford(ctx, p, chunk.TooLarge, chunk.TooLarge)
		if err != nil || reserved == 0 {
			return err
		}
		o.MaxBytes, o.MaxFirst, p.expect = reserved, reserved, reserved
		if chunk, err = f.readChunk(ctx, p, &o); err != nil {
			return err
		}
	}
	stable, aborted := p.stable, p.aborted
	if !committed {
		stable, err = f.s.stableEnd(ctx, p.src, p.num, chunk.End)
	} else if len(chunk.Data) > had {
		aborted, err = f.s.producers.Aborted(ctx, t, p.num, p.offset, chunk.Next)
	}
	if err != nil {
		return err
	}
	p.chunk, p.stable, p.aborted = chunk, stable, aborted
	f.full = f.full || chunk.Full
	return nil
}

// afford reserves memory for up to want bytes of a part, and returns for how many. If there
// is none, and the answer has no batches yet, and the partition has some to read, it waits
// until there is memory for least bytes. 0 means that the part gets no more batches; then its
// offsets have been read.
func (f *fetch) afford(ctx context.Context, p *fetchPart, want, least int) (int, error) {
	if n := f.c.reserve(want, least); n > 0 {
		return n, nil
	}
	if err := f.leaveOut(ctx, p); err != nil || f.bytes > 0 || f.failed || p.chunk.Next >= p.chunk.End {
		return 0, err
	}
	n := min(want, least)
	if err := f.c.acquire(ctx, answerCopies*int64(n)); err != nil {
		f.failed = true // the answer has no batches: the client asks again
		return 0, nil
	}
	return n, nil
}

// readChunk returns the batches that the part has and those that follow. The first read is
// into a pooled buffer if the last fetch found enough bytes for one. chunk.Data is nil if there
// are no batches; otherwise dropBatches puts it into the pool when the answer is encoded.
func (f *fetch) readChunk(ctx context.Context, p *fetchPart, o *partition.ReadOptions) (partition.Chunk, error) {
	had, buf := len(p.chunk.Data), p.chunk.Data
	if n := min(p.expect, o.MaxBytes); had == 0 && n >= 1<<minBufferBits { // no large buffer for each of many small parts
		buf = getBuffer(n)
	}
	o.Buffer = buf
	chunk, err := p.src.Read(ctx, p.num, p.chunk.Next, o)
	switch {
	case had == 0 && len(chunk.Data) == 0:
		putBuffer(buf)
		p.chunk.Data, chunk.Data = nil, nil
	case cap(chunk.Data) > cap(buf): // the reader has moved the batches
		putBuffer(buf)
		p.chunk.Data = chunk.Data[:had]
	}
	p.expect = len(chunk.Data)
	return chunk, err
}

// leaveOut sets the offsets of a part that gets no more batches for now, as ends does. If there
// are some to read and the answer has others, it is full.
func (f *fetch) leaveOut(ctx context.Context, p *fetchPart) error {
	if err := f.ends(ctx, p); err != nil {
		return err
	}
	end := p.chunk.End
	if f.committed {
		end = p.stable
	}
	f.full = f.full || f.bytes > 0 && p.chunk.Next < end
	return nil
}

// ends sets the offsets of a part to those of its partition, and leaves its batches. The error
// is an OutOfRangeError if the offset to read next is below the start, or beyond both the end
// and the bound of the partition.
func (f *fetch) ends(ctx context.Context, p *fetchPart) error {
	start, err := p.src.Start(ctx, p.num)
	if err != nil {
		return err
	}
	end, err := p.src.End(ctx, p.num)
	if err != nil {
		return err
	}
	next, most := p.chunk.Next, end
	if next > end {
		if most, err = bound(ctx, p.src, p.num); err != nil {
			return err
		}
	}
	if next < start || next > most {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "fetch", Err: &topic.OutOfRangeError{
			Topic: p.src.Name(), Partition: p.num, Offset: next, Start: start, End: end,
		}}
	}
	stable, err := f.s.stableEnd(ctx, p.src, p.num, end)
	if err != nil {
		return err
	}
	p.chunk.Start, p.chunk.End, p.stable = start, end, stable
	return nil
}

// fill writes the results into an answer, in an incremental session only those that have
// changed, and gives the batches to the connection, which keeps them until they are encoded.
func (f *fetch) fill(resp *kmsg.FetchResponse, session *session) {
	var out *kmsg.FetchResponseTopic
	f.c.batches = f.bytes
	for _, p := range f.parts {
		if len(p.chunk.Data) > 0 {
			f.c.fetched = append(f.c.fetched, p.chunk.Data) // rotate clears the part's reference
		}
		if session.incremental && !p.news() {
			continue
		}
		if out == nil || out.Topic != p.name || out.TopicID != p.id {
			resp.Topics = append(resp.Topics, kmsg.NewFetchResponseTopic())
			out = &resp.Topics[len(resp.Topics)-1]
			out.Topic, out.TopicID = p.name, p.id
		}
		out.Partitions = append(out.Partitions, f.answer(p))
	}
	session.rotate()
}

// answer returns the entry of a part, and sets lastReported to the offsets in it.
func (f *fetch) answer(p *fetchPart) kmsg.FetchResponseTopicPartition {
	out := kmsg.NewFetchResponseTopicPartition()
	out.Partition, out.ErrorCode = p.num, p.code
	out.RecordBatches = []byte{} // never null: some old clients fail on null
	if p.code != 0 {
		out.HighWatermark, out.LastStableOffset, out.LogStartOffset = -1, -1, -1
		p.lastReported = lastReported{}
		return out
	}
	out.HighWatermark, out.LastStableOffset, out.LogStartOffset = p.chunk.End, p.stable, p.chunk.Start
	p.lastReported = lastReported{any: true, start: p.chunk.Start, end: p.chunk.End, stable: p.stable}
	if len(p.chunk.Data) > 0 {
		out.RecordBatches = p.chunk.Data
	}
	if f.committed {
		out.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, len(p.aborted))
		for i, a := range p.aborted {
			t := &out.AbortedTransactions[i]
			t.Default()
			t.ProducerID, t.FirstOffset = a.ProducerID, a.First
		}
	}
	return out
}

// news returns whether a part has an error, batches, or other offsets than the client got
// last.
func (p *fetchPart) news() bool {
	return p.code != 0 || len(p.chunk.Data) > 0 ||
		p.lastReported != lastReported{any: true, start: p.chunk.Start, end: p.chunk.End, stable: p.stable}
}
