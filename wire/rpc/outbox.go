package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"github.com/mainstemdev/mainstem/wire/rpc/message"
)

// linger is how long a message of a stream that does not follow waits for more
// records when it is not full. A follower's messages do not wait.
const linger = 2 * time.Millisecond

// pool keeps the memory of messages from stream to stream.
var pool = sync.Pool{New: func() any { return new(message.Records) }}

// outbox moves records from a sequence to a stream. The sequence cannot say that it
// is about to wait, so a second goroutine sends: whatever has come while the message
// before was being sent is the next message. A follower that keeps up gets each
// record at once, one that lags gets full messages, and a slow client stops the
// sequence when one message is full behind the one being sent.
type outbox struct {
	send   func(*pb.Records) error
	linger time.Duration
	failed context.CancelCauseFunc // called when send has failed
	wake   chan struct{}           // to the sender: there is a first record, or a full message, or the end
	room   chan struct{}           // to the sequence: the message was taken, or sending failed

	mu struct {
		sync.Mutex
		filling *message.Records
		ended   bool  // no record will be added
		err     error // of sending: nothing more can be sent
	}
	spare *message.Records // the sender's: the message that was sent last
	done  chan struct{}    // closed when the sender has returned
}

// pump sends the records of the sequence that open returns until it ends, and
// returns its error, or that of send. When sending fails, the context of the
// sequence ends, so that it does not wait for records that nobody can get.
func pump(ctx context.Context, wait time.Duration, send func(*pb.Records) error, open func(context.Context) records) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := &outbox{
		send: send, linger: wait, failed: cancel, spare: pool.Get().(*message.Records),
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{}),
	}
	o.mu.filling = pool.Get().(*message.Records)
	go o.run()
	defer o.end() // also when the sequence panics
	var ended error
	for r, err := range open(ctx) {
		if ended = err; err != nil || !o.add(r) {
			break
		}
	}
	if err := o.end(); err != nil {
		return err
	}
	pool.Put(o.mu.filling) // both empty: the sender is gone
	pool.Put(o.spare)
	return ended
}

// add copies r into the message being filled, when there is room, and reports
// whether sending still works.
func (o *outbox) add(r mainstem.Record) bool {
	for {
		o.mu.Lock()
		if o.mu.err != nil {
			o.mu.Unlock()
			return false
		}
		if m := o.mu.filling; !m.Full() {
			m.Add(r)
			urgent := m.Len() == 1 || m.Full()
			o.mu.Unlock()
			if urgent {
				notify(o.wake)
			}
			return true
		}
		o.mu.Unlock()
		<-o.room
	}
}

// end waits until everything is sent and returns the error of sending.
func (o *outbox) end() error {
	o.mu.Lock()
	o.mu.ended = true
	o.mu.Unlock()
	notify(o.wake)
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
			if err := o.send(m.Message()); err != nil {
				o.fail(err)
				return
			}
		}
		m.Reset()
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
func (o *outbox) take() (m *message.Records, ended bool) {
	o.mu.Lock()
	m, ended = o.mu.filling, o.mu.ended
	o.mu.filling, o.spare = o.spare, nil
	o.mu.Unlock()
	notify(o.room)
	return m, ended
}

func (o *outbox) fail(err error) {
	o.mu.Lock()
	o.mu.err = errors.Join(o.mu.err, err)
	o.mu.Unlock()
	o.failed(err)
	notify(o.room)
}

// notify sets a flag that one goroutine waits for.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
