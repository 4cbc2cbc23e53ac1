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

// linger is how long a message of a stream that does not follow waits for more
// records when it is not full. A follower's messages do not wait.
const linger = 2 * time.Millisecond

// pool keeps the memory of messages from stream to stream.
var pool = sync.Pool{New: func() any { return new(message.Records) }}

// copies is how often the bytes of a large record are in memory while it is on its way:
// as the engine has read it, in the message, and as the message is encoded.
const copies = 3

// outbox moves records from a sequence to a stream. A sequence does not say when it is
// about to wait, so a second goroutine sends: the records that arrive while one message
// is being sent form the next. A follower that keeps up gets each record at once, one
// that lags gets full messages. A slow client stops the sequence when one message is full
// and another is being sent.
//
// Memory for a large record is reserved from a budget before the record is copied. If the
// budget has too little, the loop over the sequence ends, so that the engine frees the
// record; the stream waits for the reservation while it holds no memory, and then opens
// the sequence again after the last record sent. A sequence that cannot be opened again
// is not ended: its large records are reserved from a second budget, and the stream ends
// with Unavailable if that has too little.
type outbox struct {
	send   func(*pb.Records) error
	linger time.Duration
	failed context.CancelCauseFunc // called when send has failed
	at     receiver                // that send writes to; nil: unknown
	wake   chan struct{}           // to the sender: there is a first record, or a full message, or the end
	taken  chan struct{}           // to the sequence: the message was taken, or sending failed

	memory *memory
	next   budget.Hold // the sequence's: for the next large record
	want   int64       // the sequence's: bytes that next must have before it is opened anew; 0: none
	turn   reader      // the sequence's, unless it follows

	mu struct {
		sync.Mutex
		filling envelope
		ended   bool  // no record will be added
		err     error // of sending: nothing more can be sent
	}
	spare envelope      // the sender's: the message that was sent last
	done  chan struct{} // closed when the sender has returned
}

// envelope is a message and the memory of its large record, of which it has at most one: a
// message with a large record is full.
type envelope struct {
	*message.Records
	hold *budget.Hold // nil: it has none
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
	// setSending sets the hold of what is being sent, nil when it has been. Only the goroutine
	// that sends calls it.
	setSending(*budget.Hold)
	// setOwn sets the hold for what the same stream sends next.
	setOwn(*budget.Hold)
}

// pump sends the records of a sequence until it ends, and returns its error, or that of
// send. When sending fails, the context of the sequence ends, so that it does not go on
// waiting for records that cannot be sent.
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
		pool.Put(p.Records) // empty: the sender is gone
		p.Records = nil     // another stream may have it already: release must not touch it
	}
	return ended
}

// sendOne sends the records of a sequence if one message holds them, without the goroutine of
// a pump. Otherwise it sends nothing and returns false: the sequence must be opened anew.
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

// fill adds the records of a sequence, which must be small, to a message, until it is full.
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

// drain adds the records of the sequence, which it opens as often as it has to leave it.
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
			follow = false // or next would keep its memory while it waits for a record
		case follow == from.follows:
			return nil
		default:
			follow = true // what was there has been sent
		}
	}
}

// addAll adds records of the sequence until it ends or has to be left, which is when
// o.want is set. More is false when nothing is left to add.
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
			return false, nil // end knows the error
		}
		if from.passed != nil && !from.passed(r) {
			return false, nil
		}
	}
	return true, nil
}

// afford reserves memory for r in next if r is large. It returns false if there is too
// little: the loop over the sequence must end until o.want bytes can be reserved.
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

// sizeOf returns about how many bytes r takes in a message.
func sizeOf(r *mainstem.Record) int64 {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Name) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// add copies r into the message being filled, when there is room, and reports
// whether sending still works.
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

// release gives all memory back, once the sender has returned.
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
	return o.mu.err // the sender is gone
}

// run is the sender. It owns send; a panic there must not end the process.
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

// await returns when there is something to send: at once for a follower, else when
// the message is full, or nothing more will come, or enough time has passed.
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

// take exchanges the message being filled for an empty one.
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
