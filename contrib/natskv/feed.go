package natskv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// feed delivers the messages of a bucket in the order of the stream, each once,
// over lost connections, restarted servers and lost messages: a session with one
// consumer follows another, each from the message after the last.
//
// It makes its own push consumer rather than the client library's ordered one,
// because it must know when a heartbeat says that all has been delivered.
type feed struct {
	stream      *stream
	filter      string // subject
	policy      jetstream.DeliverPolicy
	start       uint64 // of deliverFrom: the first sequence
	headersOnly bool

	beat       time.Duration // between heartbeats
	kick       chan struct{}
	anew       atomic.Bool // begin with all that is there, whatever was before
	created    time.Time   // of the stream that the feed has begun with; zero: it has not
	last       uint64      // sequence of the newest message delivered
	syncedSent bool        // synced was told

	trouble atomic.Pointer[error] // why the last session ended; nil if there is a consumer now
}

const (
	deliverNewest = jetstream.DeliverLastPerSubjectPolicy
	deliverAll    = jetstream.DeliverAllPolicy
	deliverNew    = jetstream.DeliverNewPolicy
	deliverFrom   = jetstream.DeliverByStartSequencePolicy
	minBeat       = 100 * time.Millisecond // the least that servers take
	feedBuffer    = 256                    // messages between the connection and the feed
	feedInactive  = 30 * time.Second       // after which a server removes a consumer without listener
)

// feedAgain is the pause before a feed that ended begins again.
var feedAgain = backoff.Policy{First: 20 * time.Millisecond, Max: time.Second}

// sink is told what a feed finds, from one goroutine.
type sink interface {
	// restart: the stream is another one, or has lost its tail; all of it follows.
	restart(f *facts) error
	// deliver: a message. The sink keeps what it wants of it.
	deliver(m *nats.Msg, d delivery) error
	// alive: all messages up to seq, that the feed is about, have been delivered.
	alive(seq uint64)
	// synced: all that was there at the beginning has been delivered.
	synced() error
}

// sinkError is an error of the sink, which ends the feed.
type sinkError struct{ error }

func (e sinkError) Unwrap() error { return e.error }

var (
	errGap    = errors.New("a message is missing")
	errSilent = errors.New("the heartbeats have ended")
	errWoken  = errors.New("the connection is a new one")
	errStatus = errors.New("the server has ended the consumer")
)

// newFeed returns a feed of all messages of a bucket.
func newFeed(s *stream) *feed {
	return &feed{stream: s, filter: s.subject + ">", beat: max(s.store.maxStale/3, minBeat), kick: make(chan struct{}, 1)}
}

// wake makes the feed begin a new session now.
func (f *feed) wake() {
	wake.Signal(f.kick)
}

// run feeds to until ctx is done, the bucket does not exist any more, or to returns
// an error.
func (f *feed) run(ctx context.Context, to sink) error {
	defer f.stream.store.track(f)()
	failures := 0
	for {
		before := f.last
		err := f.session(ctx, to)
		f.trouble.Store(&err)
		var own sinkError
		switch {
		case errors.As(err, &own):
			return own.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errNoBucket):
			return err
		case f.stream.store.nc.IsClosed():
			return nats.ErrConnectionClosed
		case f.last > before || errors.Is(err, errWoken):
			failures = 0
		}
		failures++
		backoff.SleepOr(ctx, f.kick, feedAgain.Delay(failures)) // or until the connection is back
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// session makes a consumer and feeds to from it until something ends it.
func (f *feed) session(ctx context.Context, to sink) error {
	policy, start, err := f.resume(ctx, to)
	if err != nil {
		return err
	}
	s := session{feed: f, to: to, msgs: make(chan *nats.Msg, feedBuffer), ended: make(chan struct{})}
	nc := f.stream.store.nc
	inbox := nc.NewInbox()
	sub, err := nc.Subscribe(inbox, func(m *nats.Msg) {
		select {
		case s.msgs <- m:
		case <-s.ended:
		}
	})
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	defer close(s.ended)
	if err := sub.SetPendingLimits(-1, -1); err != nil { // flow control bounds it
		return err
	}
	name := rand.Text()
	pending, err := f.consume(ctx, name, inbox, policy, start)
	if err != nil {
		return err
	}
	f.trouble.Store(nil)
	defer nc.Publish(f.stream.store.api+"CONSUMER.DELETE."+f.stream.name+"."+name, nil)
	return s.run(ctx, pending)
}

// resume finds out how to go on: after the last message, or, if the stream is not
// the one it was, from the beginning.
func (f *feed) resume(ctx context.Context, to sink) (jetstream.DeliverPolicy, uint64, error) {
	info, err := f.stream.info(ctx)
	if err != nil {
		return 0, 0, err
	}
	same := !f.anew.Swap(false) && f.created.Equal(info.Created) && info.State.LastSeq >= f.last
	if !same || f.created.IsZero() {
		f.last, f.syncedSent = 0, false
		if err := to.restart(info.facts()); err != nil {
			return 0, 0, sinkError{err}
		}
		f.created = info.Created
	}
	if f.last > 0 {
		return deliverFrom, f.last + 1, nil
	}
	if f.policy == deliverNew { // what comes after now, also if this session ends before the first
		f.last = info.State.LastSeq
		return deliverFrom, f.last + 1, nil
	}
	return f.policy, f.start, nil
}

// consume creates the consumer and returns how many messages it has.
func (f *feed) consume(ctx context.Context, name, inbox string, policy jetstream.DeliverPolicy, start uint64) (uint64, error) {
	type request struct {
		Stream string                    `json:"stream_name"`
		Config *jetstream.ConsumerConfig `json:"config"`
	}
	c := &jetstream.ConsumerConfig{
		Name: name, DeliverPolicy: policy, AckPolicy: jetstream.AckNonePolicy, MaxDeliver: 1,
		FilterSubject: f.filter, ReplayPolicy: jetstream.ReplayInstantPolicy, HeadersOnly: f.headersOnly,
		InactiveThreshold: feedInactive, Replicas: 1, MemoryStorage: true,
		DeliverSubject: inbox, FlowControl: true, IdleHeartbeat: f.beat,
	}
	if policy == deliverFrom {
		c.OptStartSeq = start
	}
	var answer struct {
		Pending uint64 `json:"num_pending"`
	}
	_, err := f.stream.store.ask(ctx, "CONSUMER.CREATE."+f.stream.name+"."+name+"."+f.filter, request{f.stream.name, c}, &answer)
	if isCode(err, codeStreamNotFound) {
		return 0, errNoBucket
	}
	return answer.Pending, err
}

// session is one consumer's delivery.
type session struct {
	*feed
	to     sink
	msgs   chan *nats.Msg
	ended  chan struct{}
	number uint64 // of the newest message among those of the consumer
}

func (s *session) run(ctx context.Context, pending uint64) error {
	if pending == 0 {
		s.to.alive(s.last)
		if err := s.tellSynced(); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(s.beat)
	defer ticker.Stop()
	for silent := 0; ; {
		select {
		case m := <-s.msgs:
			silent = 0
			if err := s.take(m, pending); err != nil {
				return err
			}
		case <-ticker.C:
			if silent++; silent > 2 {
				return errSilent
			}
		case <-s.kick:
			return errWoken
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *session) tellSynced() error {
	if s.syncedSent {
		return nil
	}
	s.syncedSent = true
	if err := s.to.synced(); err != nil {
		return sinkError{err}
	}
	return nil
}

// take handles one message of the consumer.
func (s *session) take(m *nats.Msg, pending uint64) error {
	if len(m.Data) == 0 {
		if status := statusOf(m); status != "" {
			return s.control(m, status)
		}
	}
	d, ok := parseDelivery(m.Reply)
	if !ok || len(m.Subject) <= len(s.stream.subject) {
		return fmt.Errorf("a message came with the subject %.100q and the reply %.100q", m.Subject, m.Reply)
	}
	if d.number != s.number+1 {
		return errGap
	}
	s.number = d.number
	if err := s.to.deliver(m, d); err != nil {
		return sinkError{err}
	}
	s.last = d.seq
	if d.pending == 0 || d.number >= pending {
		return s.tellSynced()
	}
	return nil
}

// control handles a message of the server about the delivery.
func (s *session) control(m *nats.Msg, status string) error {
	if status != "100" {
		return fmt.Errorf("%w: %s %s", errStatus, status, m.Header.Get("Description"))
	}
	if m.Reply != "" { // flow control: go on
		return s.stream.store.nc.Publish(m.Reply, nil)
	}
	if stalled := m.Header.Get("Nats-Consumer-Stalled"); stalled != "" {
		return s.stream.store.nc.Publish(stalled, nil)
	}
	number, err := strconv.ParseUint(m.Header.Get("Nats-Last-Consumer"), 10, 64)
	if err != nil {
		return nil
	}
	if number != s.number {
		return errGap
	}
	seq, _ := strconv.ParseUint(m.Header.Get("Nats-Last-Stream"), 10, 64)
	s.to.alive(max(seq, s.last))
	return s.tellSynced()
}
