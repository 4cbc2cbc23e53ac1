package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/message"
	"github.com/mainstemdev/mainstem/internal/wake"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// linger is how long a message that is not full waits for more records, in a stream that does not
// follow. Messages to followers do not wait.
const linger = 2 * time.Millisecond

// pool keeps the memory of messages for later streams.
var pool = sync.Pool{New: func() any { return new(message.Records) }}

// copies is how many copies of a large record are in memory while it is sent: as the engine has
// read it, in the message, and in the encoded message.
const copies = 3

// outbox sends the records of a sequence to a stream. A sequence does not announce that it is
// going to wait, so a second goroutine sends: the records that arrive while one message is being
// sent form the next one. A follower that keeps up gets each record at once; one that lags gets
// full messages. For a slow client, the sequence stops when one message is full and another one
// is being sent.
//
// Memory for a large record is reserved from a budget before the record is copied. If the budget
// is exhausted, the loop over the sequence ends, so that the engine frees the record. The stream
// waits for the reservation while it has no memory, and then opens the sequence again after the
// last record sent. A sequence that cannot be opened again is not ended: its large records are
// reserved from a second budget, and the stream ends with Unavailable if that is exhausted.
type outbox struct {
	send   func(*pb.Records) error
	linger time.Duration
	failed context.CancelCauseFunc // called when send has failed
	at     receiver                // to which send writes; nil: unknown
	wake   chan struct{}           // to the sender: first record, full message, or end
	taken  chan struct{}           // to the sequence: the message was taken, or sending has failed

	memory *memory
	next   budget.Hold // of the sequence: for the next large record
	want   int64       // of the sequence: bytes to reserve in next before it is opened again; 0: none
	turn   reader      // of the sequence, unless it follows

	mu struct {
		sync.Mutex
		filling envelope
		ended   bool  // no further record will be added
		err     error // error of sending, after which nothing is sent
	}
	spare envelope      // of the sender: the message that was sent last
	done  chan struct{} // closed when the sender has returned
}

// envelope is a message and the reservation for its large record. A message has at most one large
// record, and is full then.
type envelope struct {
	*message.Records
	hold *budget.Hold // nil: no large record
}

func (p *envelope) reset() {
	p.Reset()
	if p.hold != nil {
		p.hold.Release()
		p.hold = nil
	}
}

// receiver is what a stream writes to: the exchange of a request, or a call of a session.
type receiver interface {
	// setSending sets the reservation of the message that is being sent, and nil afterwards. Only
	// the goroutine that sends calls it.
	setSending(*budget.Hold)
	// setOwn sets the reservation for the next message of the same stream.
	setOwn(*budget.Hold)
}

// pump sends the records of a sequence until it ends. It returns the error of the sequence or of
// send. When sending fails, it cancels the context of the sequence, which would otherwise wait
// for records that cannot be sent.
func pump(ctx context.Context, m *memory, wait time.Duration, send func(*pb.Records) error, from source) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := &outbox{
		send: send, linger: wait, failed: cancel, memory: m, next: m.answers.Hold(), turn: reader{places: m.readers},
		wake: make(chan struct{}, 1), taken: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if o.at, _ = ctx.Value(exchangeKey{}).(receiver); o.at != nil {
		o.at.setOwn(&o.next)
	}
	o.spare.Records, o.mu.filling.Records = pool.Get().(*message.Records), pool.Get().(*message.Records)
	go o.run()
	defer o.release()
	defer o.end() // also when the sequence panics
	ended := o.drain(ctx, from)
	if err := o.end(); err != nil {
		return err
	}
	for _, p := range []*envelope{&o.mu.filling, &o.spare} {
		pool.Put(p.Records) // empty, and the sender has returned
		p.Records = nil     // another stream may use it now, so release must not touch it
	}
	return ended
}

// sendOne sends the records of a sequence if they fit in one message, without the goroutine of
// pump. Otherwise it sends nothing and returns false, and the caller must open the sequence
// again.
func sendOne(ctx context.Context, m *memory, send sendRecords, from records) (done bool, err error) {
	batch := pool.Get().(*message.Records)
	defer func() {
		batch.Reset()
		pool.Put(batch)
	}()
	if whole, err := fill(ctx, m, batch, from); err != nil || !whole {
		return err != nil, err
	}
	if batch.Len() == 0 {
		return true, nil
	}
	return true, send(batch.Message())
}

// fill adds the records of a sequence, which must all be small, to a message. whole is false if
// the message is full before the end.
func fill(ctx context.Context, m *memory, into *message.Records, from records) (whole bool, err error) {
	turn := reader{places: m.readers}
	turn.enter(ctx)
	defer turn.leave()
	for r, err := range from {
		if err != nil {
			return false, err
		}
		if into.Full() || sizeOf(&r) >= message.FullBytes {
			return false, nil
		}
		into.Add(r)
	}
	return true, nil
}

// drain adds all records of the sequence. It opens the sequence again each time that it had to
// leave it.
func (o *outbox) drain(ctx context.Context, from source) error {
	for follow := from.follows; ; {
		more, err := o.addAll(ctx, from, follow)
		o.next.Release()
		switch {
		case err != nil || !more:
			return err
		case o.want > 0:
			want := o.want
			o.want = 0
			if err := o.next.Acquire(ctx, want); err != nil {
				return exhausted(err)
			}
			follow = false // otherwise next would keep its memory while the sequence waits for a record
		case follow == from.follows:
			return nil
		default:
			follow = true // the existing records were sent
		}
	}
}

// addAll adds records of the sequence until it ends or must be left; o.want is set in the latter
// case. more is false if there is nothing left to add.
func (o *outbox) addAll(ctx context.Context, from source, follow bool) (more bool, err error) {
	if !follow {
		o.turn.enter(ctx)
	}
	defer o.turn.leave()
	for r, err := range from.open(ctx, follow) {
		if err != nil {
			return false, err
		}
		if ok, err := o.afford(ctx, &r, from.passed != nil); !ok {
			return err == nil, err
		}
		if !o.add(ctx, r) {
			return false, nil // end returns the error
		}
		if from.passed != nil && !from.passed(r) {
			return false, nil
		}
	}
	return true, nil
}

// afford reserves memory for r in next if r is large. It returns false if the budget is
// exhausted: the loop over the sequence must end until o.want bytes can be reserved.
func (o *outbox) afford(ctx context.Context, r *mainstem.Record, again bool) (bool, error) {
	size := sizeOf(r)
	if size < message.FullBytes {
		return true, nil
	}
	cost := copies * size
	if more := cost - o.next.Size(); more <= 0 {
		o.next.Shrink(-more)
		return true, nil
	} else if o.next.Try(more) {
		return true, nil
	}
	if again {
		o.want = cost
		return false, nil
	}
	hand := o.memory.waiting.Hold()
	defer hand.Release()
	if !hand.Try(size) {
		return false, mainstem.Errorf(mainstem.KindUnavailable, "scan", "%w", errManyWait).WithHint("read faster, or ask for less at a time")
	}
	if o.turn.leave() {
		defer o.turn.enter(ctx)
	}
	if err := o.next.Acquire(ctx, cost); err != nil {
		return false, exhausted(err)
	}
	return true, nil
}

// sizeOf returns the approximate size of r in a message, in bytes.
func sizeOf(r *mainstem.Record) int64 {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Name) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// add copies r into the message that is being filled, when there is room. It returns false if
// sending has failed.
func (o *outbox) add(ctx context.Context, r mainstem.Record) bool {
	for {
		o.mu.Lock()
		if o.mu.err != nil {
			o.mu.Unlock()
			return false
		}
		if m := &o.mu.filling; !m.Full() {
			m.Add(r)
			if sizeOf(&r) >= message.FullBytes {
				m.hold = o.next.Move()
			}
			urgent := m.Len() == 1 || m.Full()
			o.mu.Unlock()
			if urgent {
				wake.Signal(o.wake)
			}
			return true
		}
		o.mu.Unlock()
		reads := o.turn.leave()
		<-o.taken
		if reads {
			o.turn.enter(ctx)
		}
	}
}

// release releases all memory. The sender must have returned.
func (o *outbox) release() {
	o.next.Release()
	for _, p := range []*envelope{&o.mu.filling, &o.spare} {
		if p.Records != nil {
			p.reset()
		}
	}
}

// end waits until everything is sent and returns the error of sending.
func (o *outbox) end() error {
	o.mu.Lock()
	o.mu.ended = true
	o.mu.Unlock()
	wake.Signal(o.wake)
	<-o.done
	return o.mu.err // the sender has returned
}

// run is the sender. Only it calls send. It recovers a panic of send, which must not end the
// process.
func (o *outbox) run() {
	defer close(o.done)
	defer func() {
		if v := recover(); v != nil {
			o.fail(fmt.Errorf("sending records panicked: %v", v))
		}
	}()
	for {
		o.await()
		m, ended := o.take()
		if m.Len() > 0 {
			if o.at != nil {
				o.at.setSending(m.hold)
			}
			err := o.send(m.Message())
			if o.at != nil {
				o.at.setSending(nil)
			}
			if err != nil {
				m.reset()
				o.fail(err)
				return
			}
		}
		m.reset()
		o.spare = m
		if ended {
			return
		}
	}
}

// await returns when there is a message to send: at once for a follower, otherwise when the
// message is full, when no record will follow, or after linger.
func (o *outbox) await() {
	<-o.wake
	if o.linger <= 0 {
		return
	}
	enough := time.NewTimer(o.linger)
	defer enough.Stop()
	for {
		o.mu.Lock()
		ready := o.mu.ended || o.mu.filling.Full()
		o.mu.Unlock()
		if ready {
			return
		}
		select {
		case <-o.wake:
		case <-enough.C:
			return
		}
	}
}

// take replaces the message that is being filled by an empty one, and returns it.
func (o *outbox) take() (m envelope, ended bool) {
	o.mu.Lock()
	m, ended = o.mu.filling, o.mu.ended
	o.mu.filling, o.spare = o.spare, envelope{}
	o.mu.Unlock()
	wake.Signal(o.taken)
	return m, ended
}

func (o *outbox) fail(err error) {
	o.mu.Lock()
	o.mu.err = errors.Join(o.mu.err, err)
	o.mu.Unlock()
	o.failed(err)
	wake.Signal(o.taken)
}
