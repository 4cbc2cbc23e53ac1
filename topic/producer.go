package topic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// ProducerOptions configures [Topic.Producer]. Zero fields mean the defaults.
type ProducerOptions struct {
	// Linger is how long a record may wait for others to share its batch. Default 0: a record waits
	// only while the sender commits earlier batches.
	Linger time.Duration
	// BatchBytes bounds a record batch, in bytes before compression; so does the topic's
	// max.message.bytes. A record that is larger gets a batch of its own. Default
	// [DefaultBatchBytes].
	BatchBytes int
	// BufferBytes bounds the bytes of all records that are not committed yet, as counted by
	// [recordbatch.Record.Size]; beyond it, Produce waits. Default [DefaultBufferBytes].
	BufferBytes int
	// Compression of the batches. Default none.
	Compression Codec
	// Durability is that of a batch when its records are acknowledged. Default: the log's.
	Durability mainstem.Durability
	// Partitioner chooses the partitions. Default [ByKey].
	Partitioner Partitioner
}

// The defaults.
const (
	DefaultBatchBytes  = 1_000_000
	DefaultBufferBytes = 32 << 20
)

func (o *ProducerOptions) withDefaults() (ProducerOptions, error) {
	var c ProducerOptions
	if o != nil {
		c = *o
	}
	if c.Linger < 0 || c.BatchBytes < 0 || c.BufferBytes < 0 || c.Compression > Zstd {
		return c, mainstem.Refusef(mainstem.KindInvalid, "producer", "options Linger %v, BatchBytes %d, BufferBytes %d, Compression %v: want 0 (default) or more, and a codec that exists", c.Linger, c.BatchBytes, c.BufferBytes, c.Compression)
	}
	if c.BatchBytes == 0 {
		c.BatchBytes = DefaultBatchBytes
	}
	if c.BufferBytes == 0 {
		c.BufferBytes = DefaultBufferBytes
	}
	if c.Partitioner == nil {
		c.Partitioner = ByKey()
	}
	return c, nil
}

// Sent says where a produced record was stored.
type Sent struct {
	Partition int32
	Offset    int64
}

// Producer collects records into record batches and commits the batches of all partitions together.
// Its methods may be called from many goroutines. Close it before its catalog.
//
// Order: the records of one partition have offsets in the order of the calls of Produce.
//
// A draft is a record batch that is being filled. It goes through these states:
//
//	open     it takes records; at most one for each partition
//	sealed   it takes no more records and waits in ready
//	sending  it is in the commit that is under way
//	released its records are committed or failed; its memory is reused
//
// An open draft is sealed when it has reached its size, when the next record does not fit, when
// Linger has passed, when the buffer is full, and by Flush, ProduceSync and Close. One goroutine,
// the sender (see run), takes sealed drafts in this order, commits them in one batch of the log,
// calls the callbacks of their records and releases them. There is one commit at a time. Records
// that come meanwhile fill the next drafts, so batches grow with the load.
//
// A record is not retried: if a commit fails, the records in it fail, and the later ones go on.
//
// Invariant: held is the sum of held of all drafts that are open, sealed or sending. It is at most
// BufferBytes unless there is only one record.
type Producer struct {
	t    *Topic
	o    ProducerOptions
	wake chan struct{} // capacity 1: there may be something to send
	done chan struct{} // closed when the sender has returned

	mu struct {
		sync.Mutex
		open    map[int32]*draft // by partition
		order   []*draft         // by age: all open drafts, and some that have been sealed since
		ready   []*draft         // in the order in which they were sealed
		sending []*draft         // the sender reads the elements without the lock
		spare   []*draft         // empty, kept for their memory; at most spareDrafts
		held    int              // bytes of records, see the invariant
		freed   chan struct{}    // closed when held decreases and by Close; nil if nobody waits
		sticky  int32            // partition for records that may go to any; AnyPartition: not chosen yet
		chosen  Record           // the partitioner's argument, not allocated for each record
		failed  error            // that the next Flush or Close returns
		closed  bool
	}
}

// draft is a record batch that is being filled. Until it is sealed, the fields are under the mu of
// the producer. Then b, p and promises belong to the sender.
type draft struct {
	p        *partitionState
	b        recordbatch.Builder
	promises []func(Sent, error) // by record; nil for a record without a callback
	held     int                 // bytes of its records, as counted against BufferBytes
	born     time.Time           // when it was opened, for Linger
	sealed   bool                // never reset: order may still have it
	done     chan struct{}       // under the mu of the producer: closed at release; nil if no Flush waits
}

// Producer returns a new producer, which owns one goroutine until Close. Options out of range are
// Invalid; a topic that was deleted is NotFound.
func (t *Topic) Producer(o *ProducerOptions) (*Producer, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := t.usable("producer"); err != nil {
		return nil, err
	}
	p := &Producer{t: t, o: opts, wake: make(chan struct{}, 1), done: make(chan struct{})}
	p.mu.open = map[int32]*draft{}
	p.mu.sticky = AnyPartition
	go p.run()
	return p, nil
}

// Produce adds a copy of a record to a batch. It waits only while the buffer is full, until ctx
// ends at the latest.
//
// done is called once, with the partition and offset when the record is committed at the producer's
// durability, or with the error. The sender calls it and waits for it, so it must be quick and must
// not call the producer. If the record is refused before it is in a batch (Invalid, NotFound,
// Closed, or Canceled because ctx has ended), Produce calls done itself before it returns. done may
// be nil: [Producer.Flush] and [Producer.Close] return an error in any case.
func (p *Producer) Produce(ctx context.Context, r Record, done func(Sent, error)) {
	if err := p.produce(ctx, &r, done); err != nil {
		p.mu.Lock()
		p.failLocked(err)
		p.mu.Unlock()
		if done != nil {
			done(Sent{}, err)
		}
	}
}

// produce is Produce for a record that is not in a batch yet if there is an error.
func (p *Producer) produce(ctx context.Context, r *Record, done func(Sent, error)) error {
	const op = "produce"
	plain := r.plain(p.t.c.o.Now().UnixMilli())
	size := plain.Size()
	if err := p.t.checkRecord(op, &plain, size); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.waitRoomLocked(ctx, size); err != nil {
		return err
	}
	d, err := p.draftLocked(op, r, size)
	if err != nil {
		return err
	}
	d.b.Append(&plain)
	d.promises = append(d.promises, done)
	d.held += size
	p.mu.held += size
	if d.b.Size() >= p.limit() {
		p.sealLocked(d)
	}
	if p.o.Linger == 0 || d.sealed || len(d.promises) == 1 { // else a timer of the sender is set already
		p.signal()
	}
	return nil
}

// checkRecord checks everything about a record that does not depend on its partition. size is the
// most that the record can take.
func (t *Topic) checkRecord(op string, r *recordbatch.Record, size int) error {
	if err := t.usable(op); err != nil {
		return err
	}
	s := &t.now().settings
	if s.Compact && r.Key == nil {
		return t.refuse(op, &recordbatch.Error{Reason: recordbatch.BadRecord, Err: errors.New("the record has no key: a compacted topic demands one")})
	}
	if size > recordbatch.MaxUncompressed {
		return t.refuse(op, &recordbatch.Error{Reason: recordbatch.TooLarge, Err: fmt.Errorf("a record of %d bytes: the limit is %d", size, recordbatch.MaxUncompressed)})
	}
	if !s.LogAppendTime {
		if err := s.CheckTime(r.Timestamp, t.c.o.Now().UnixMilli()); err != nil {
			return t.refuse(op, err)
		}
	}
	return nil
}

// limit returns the bytes of a batch, before compression, from which it takes no more records.
func (p *Producer) limit() int {
	return min(p.o.BatchBytes, int(p.t.now().settings.MaxMessage))
}

// waitRoomLocked waits until size more bytes fit into the buffer. A record larger than the buffer
// fits when the buffer is empty. While it waits, p.mu is not held.
func (p *Producer) waitRoomLocked(ctx context.Context, size int) error {
	for {
		if p.mu.closed {
			return mainstem.Refusef(mainstem.KindClosed, "produce", "the producer is closed").At(p.t.space, nil)
		}
		if p.mu.held == 0 || p.mu.held+size <= p.o.BufferBytes {
			return nil
		}
		p.sealAllLocked() // only a commit makes room
		if p.mu.freed == nil {
			p.mu.freed = make(chan struct{})
		}
		freed := p.mu.freed
		p.mu.Unlock()
		var err error
		began := time.Now()
		select {
		case <-freed:
		case <-ctx.Done():
			err = p.ended(ctx, "produce", began, mainstem.NotWritten, "room in the buffer")
		}
		p.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// draftLocked returns the open draft for a record of size bytes. If the record does not fit into
// the draft of its partition, that one is sealed, and another is opened.
func (p *Producer) draftLocked(op string, r *Record, size int) (*draft, error) {
	p.mu.chosen = *r
	num := p.o.Partitioner(&p.mu.chosen, p.t.Partitions())
	p.mu.chosen = Record{}
	anywhere := num == AnyPartition
	for {
		if anywhere {
			num = p.stickyLocked()
		}
		part, err := p.t.partition(op, num)
		if err != nil {
			return nil, err
		}
		d := p.mu.open[num]
		if d == nil {
			return p.newDraftLocked(part), nil
		}
		if d.b.Size()+size <= p.limit() {
			return d, nil
		}
		p.sealLocked(d) // also changes sticky if this was its partition
	}
}

// stickyLocked returns the partition for records that may go to any, and chooses one if there is
// none.
func (p *Producer) stickyLocked() int32 {
	if n := p.t.Partitions(); p.mu.sticky == AnyPartition || p.mu.sticky >= n {
		p.mu.sticky = rand.Int32N(n)
	}
	return p.mu.sticky
}

// newDraftLocked opens a draft for a partition.
func (p *Producer) newDraftLocked(part *partitionState) *draft {
	d := &draft{}
	if n := len(p.mu.spare); n > 0 {
		d, p.mu.spare = p.mu.spare[n-1], p.mu.spare[:n-1]
	}
	d.p, d.born = part, time.Now()
	p.mu.open[part.num] = d
	p.mu.order = append(p.mu.order, d)
	return d
}

// sealLocked seals an open draft. If it is that of the sticky partition, another partition, chosen
// at random, becomes sticky.
func (p *Producer) sealLocked(d *draft) {
	d.sealed = true
	delete(p.mu.open, d.p.num)
	p.mu.ready = append(p.mu.ready, d)
	if n := p.t.Partitions(); d.p.num == p.mu.sticky && n > 1 {
		p.mu.sticky = (d.p.num + 1 + rand.Int32N(n-1)) % n
	}
}

// sealAllLocked seals every open draft and wakes the sender.
func (p *Producer) sealAllLocked() {
	for _, d := range p.mu.order {
		if !d.sealed {
			p.sealLocked(d)
		}
	}
	p.mu.order = p.mu.order[:0]
	p.signal()
}

// signal makes the sender look for drafts again.
func (p *Producer) signal() {
	wake.Signal(p.wake)
}

// failLocked keeps err for the next Flush or Close, if it is the first.
func (p *Producer) failLocked(err error) {
	if p.mu.failed == nil {
		p.mu.failed = err
	}
}

// ProduceSync produces records, without lingering, and returns where they were stored, in the order
// given, once all are committed. If it fails, some of them may be committed. If ctx ends first, the
// outcome is unknown, and all of them may still be committed.
func (p *Producer) ProduceSync(ctx context.Context, records ...Record) ([]Sent, error) {
	if len(records) == 0 {
		return nil, nil
	}
	out, errs := make([]Sent, len(records)), make([]error, len(records))
	var left atomic.Int64
	left.Store(int64(len(records)))
	all := make(chan struct{})
	for i := range records {
		p.Produce(ctx, records[i], func(s Sent, err error) {
			out[i], errs[i] = s, err
			if left.Add(-1) == 0 {
				close(all)
			}
		})
	}
	p.mu.Lock()
	p.sealAllLocked()
	p.mu.Unlock()
	began := time.Now()
	select {
	case <-all:
	case <-ctx.Done():
		return nil, p.ended(ctx, "produce", began, mainstem.Unknown, "records to be committed")
	}
	return out, errors.Join(errs...)
}

// Flush sends all records that were produced before the call, without lingering, and waits until
// they are committed or have failed. It returns an error of a record since the last Flush, the
// first if there were several commits with errors. If ctx ends first, the error is Canceled with an
// unknown outcome.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	p.sealAllLocked()
	var waits []chan struct{}
	for _, list := range [][]*draft{p.mu.sending, p.mu.ready} {
		for _, d := range list {
			if d.done == nil {
				d.done = make(chan struct{})
			}
			waits = append(waits, d.done)
		}
	}
	p.mu.Unlock()
	began := time.Now()
	for _, done := range waits {
		select {
		case <-done:
		case <-ctx.Done():
			return p.ended(ctx, "flush", began, mainstem.Unknown, "records to be committed")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.mu.failed
	p.mu.failed = nil
	return err
}

// Close sends all records that were produced, waits until they are committed or have failed, and
// ends the producer's goroutine. It returns an error as Flush does. Closing twice is allowed.
func (p *Producer) Close() error {
	p.mu.Lock()
	p.mu.closed = true
	p.sealAllLocked()
	if p.mu.freed != nil {
		close(p.mu.freed)
		p.mu.freed = nil
	}
	p.mu.Unlock()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.mu.failed
	p.mu.failed = nil
	return err
}

// ended returns the error of a call that has waited since began when its ctx ended. waiting is what
// it waited for.
func (p *Producer) ended(ctx context.Context, op string, began time.Time, o mainstem.Outcome, waiting string) error {
	e := mainstem.Ended(ctx, op, began, waiting)
	e.Space, e.Outcome = p.t.space, o
	return e
}
