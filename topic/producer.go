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
	// Linger is how long a record may wait for others to share its batch. Default 0:
	// a record waits only while the batches before it are being committed.
	Linger time.Duration
	// BatchBytes is how large a record batch may grow, before compression. The
	// topic's max.message.bytes bounds it too. Default [DefaultBatchBytes].
	BatchBytes int
	// BufferBytes bounds what waits to be committed; beyond it, Produce blocks.
	// Default [DefaultBufferBytes].
	BufferBytes int
	// Compression of the batches. Default none.
	Compression Codec
	// Durability that a batch has when its records are acknowledged. Default: the log's.
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

// Sent says where a produced record went.
type Sent struct {
	Partition int32
	Offset    int64
}

// Producer collects records into batches and commits the batches of all
// partitions together. One commit is under way at a time: what is produced
// meanwhile goes with the next, so load makes batches larger by itself. Records
// of one partition keep the order of the calls. The methods may be called from many
// goroutines. Close it before its catalog.
type Producer struct {
	t    *Topic
	o    ProducerOptions
	wake chan struct{} // capacity 1: there may be something to send
	done chan struct{} // closed when the sender has ended

	mu struct {
		sync.Mutex
		open    map[int32]*draft // being filled, by partition
		order   []*draft         // the open ones and some that are sealed, by age
		ready   []*draft         // sealed, by age
		sending []*draft
		spare   []*draft
		held    int           // bytes in all drafts
		freed   chan struct{} // closed when held falls; nil if nobody waits
		sticky  int32
		chosen  Record // what the partitioner looks at; here, so that it need not be allocated
		failed  error  // the first since the last Flush
		closed  bool
	}
}

// draft is a record batch in the making.
type draft struct {
	p        *partitionState
	b        recordbatch.Builder
	promises []func(Sent, error)
	held     int
	born     time.Time
	sealed   bool
	done     chan struct{} // closed when it is committed or failed; nil if nobody waits
}

// Producer returns a new producer. Close it: it owns a goroutine.
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

// Produce takes a record, copying it, and calls done with where it went once it is
// committed at the producer's durability, or with why it was not. done may be nil:
// then errors show in Flush. It is called once, on the producer's goroutine: what
// it does delays others, and it must not call the producer. Produce blocks only
// while the buffer is full, at most until ctx ends.
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
	if p.o.Linger == 0 || d.sealed || len(d.promises) == 1 { // else the sender knows its time
		p.signal()
	}
	return nil
}

// checkRecord checks what can be known about a record before its partition is.
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

// limit is how large a batch may grow.
func (p *Producer) limit() int {
	return min(p.o.BatchBytes, int(p.t.now().settings.MaxMessage))
}

// waitRoomLocked waits until size more bytes fit into the buffer. A record larger
// than the buffer fits when it is alone.
func (p *Producer) waitRoomLocked(ctx context.Context, size int) error {
	for {
		if p.mu.closed {
			return mainstem.Refusef(mainstem.KindClosed, "produce", "the producer is closed").At(p.t.space, nil)
		}
		if p.mu.held == 0 || p.mu.held+size <= p.o.BufferBytes {
			return nil
		}
		p.sealAllLocked() // the buffer is full: lingering does not help
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

// draftLocked returns the draft that takes the next record, of size bytes.
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
		p.sealLocked(d) // which also moves on to another sticky partition
	}
}

func (p *Producer) stickyLocked() int32 {
	if n := p.t.Partitions(); p.mu.sticky == AnyPartition || p.mu.sticky >= n {
		p.mu.sticky = rand.Int32N(n)
	}
	return p.mu.sticky
}

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

// sealLocked ends the filling of a draft. The sticky partition changes with it.
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

func (p *Producer) signal() {
	wake.Signal(p.wake)
}

func (p *Producer) failLocked(err error) {
	if p.mu.failed == nil {
		p.mu.failed = err
	}
}

// ProduceSync produces records, without lingering, and returns where they went, in
// the order given, once all are committed. With an error, some may have been
// committed; if ctx ended first, all of them may be yet.
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

// Flush sends what was produced before the call, without lingering, waits until
// it is committed, and returns the first error of any record since the last Flush.
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

// Close sends what was produced, waits until it is committed, and releases the
// producer. It returns the first error of any record since the last Flush.
// Closing twice is allowed.
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

// ended is the error of a call whose ctx ended while it waited since began.
func (p *Producer) ended(ctx context.Context, op string, began time.Time, o mainstem.Outcome, waiting string) error {
	e := mainstem.Ended(ctx, op, began, waiting)
	e.Space, e.Outcome = p.t.space, o
	return e
}
