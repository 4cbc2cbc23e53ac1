package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// How the tail reads the stream.
const (
	tailWait     = 30 * time.Second
	tailMessages = 1000
	tailInactive = time.Minute // then servers forget a consumer that nobody reads

	// tailQuiet is how long this process must not have written before the tail waits for
	// messages again: until then it would only bring back what the process itself writes.
	// If somebody else writes before its next commit, that fails and wakes the tail.
	tailQuiet = 5 * time.Millisecond
	// tailBehind is how many messages of its own the tail rather skips, with a new
	// consumer, than reads.
	tailBehind = 64
)

// pending is a frame of which not all messages have been seen.
type pending struct {
	frame
	seq   uint64 // of its first message
	parts uint32
	seen  uint32
}

// follow is the goroutine that keeps the state up to date with what other processes
// write. It reads headers only: values stay on the servers until they are asked for.
// Servers may be away for hours: it tries again every retryPause, but logs only the first
// failure and the success that follows.
func (l *Log) follow() {
	defer l.running.Done()
	var failing bool
	read := func() {
		if failing {
			l.opts.Logger.Info("the stream can be read again", "stream", l.opts.Stream)
		}
		failing = false
	}
	for l.ctx.Err() == nil {
		if err := l.tail(read); err != nil && l.ctx.Err() == nil && !failing {
			l.opts.Logger.Warn("the stream cannot be read; it is tried again until it can", "stream", l.opts.Stream, "error", err)
			failing = true
		}
		if l.broken() != nil || !l.pause(retryPause) {
			return
		}
	}
}

// tail reads the stream until that fails, or the session ends: what was on its way then
// is lost. It calls read after every answer of the servers.
func (l *Log) tail(read func()) (err error) {
	l.mu.RLock()
	session := l.session
	l.mu.RUnlock()
	defer func() {
		if session.Err() != nil {
			err = nil
		}
	}()
	life, cancel := context.WithCancel(l.ctx)
	defer cancel()
	defer context.AfterFunc(session, cancel)()
	c := &tailConsumer{l: l}
	defer c.end()
	if err := c.begin(life, l.seen()+1); err != nil {
		return err
	}
	if err := l.sameStream(life); err != nil {
		if mainstem.KindOf(err) == mainstem.KindCorrupt {
			l.breakDown(err)
		}
		return err
	}
	for life.Err() == nil {
		if from := l.seen() + 1; from > c.next+tailBehind {
			if err := c.begin(life, from); err != nil {
				return err
			}
		}
		n, err := c.read(c.consumer.FetchNoWait(tailMessages))
		if err != nil {
			return err
		}
		read()
		if n > 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(life, tailWait)
		_, err = c.read(c.consumer.Fetch(1, jetstream.FetchContext(ctx), jetstream.FetchHeartbeat(l.heartbeat())))
		cancel()
		if errors.Is(err, nats.ErrNoHeartbeat) || errors.Is(err, jetstream.ErrNoHeartbeat) {
			l.pace.note(l.pace.limit(), true)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		l.quiet()
	}
	return nil
}

// heartbeat is how often a server says that it is there while it has nothing to send: a
// second unless the servers are slow. One that is silent for twice as long is given up.
func (l *Log) heartbeat() time.Duration { return l.pace.limit() / 2 }

// quiet waits until this process has not written for a while, or somebody waits for
// what others wrote.
func (l *Log) quiet() {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		l.mu.RLock()
		left, wanted := time.Until(l.wrote.Add(tailQuiet)), len(l.waiters) > 0
		l.mu.RUnlock()
		if left <= 0 || wanted {
			return
		}
		t.Reset(left)
		select {
		case <-t.C:
		case <-l.hurry:
		case <-l.ctx.Done():
			return
		}
	}
}

// tailConsumer is a consumer of the stream on the server.
type tailConsumer struct {
	l        *Log
	consumer jetstream.Consumer
	next     uint64 // sequence in the stream of the next message, at least
	number   uint64 // of the newest message among those of the consumer
}

// begin makes a consumer that begins with the message from.
func (c *tailConsumer) begin(ctx context.Context, from uint64) error {
	c.end()
	limit := c.l.pace.limit()
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel()
	defer func() { c.l.pace.note(limit, errors.Is(ctx.Err(), context.DeadlineExceeded)) }()
	consumer, err := c.l.js.CreateConsumer(ctx, c.l.opts.Stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, AckPolicy: jetstream.AckNonePolicy,
		HeadersOnly: true, MemoryStorage: true, Replicas: 1, InactiveThreshold: tailInactive,
	})
	if err != nil {
		return err
	}
	*c = tailConsumer{l: c.l, consumer: consumer, next: from}
	return nil
}

// end deletes the consumer. If that fails the server does so itself later.
func (c *tailConsumer) end() {
	if c.consumer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.l.root, tailEnd)
	defer cancel()
	_ = c.l.js.DeleteConsumer(ctx, c.l.opts.Stream, c.consumer.CachedInfo().Name)
	c.consumer = nil
}

// tailEnd is how long deleting a consumer may take.
const tailEnd = 250 * time.Millisecond

// read takes messages into the state and returns how many there were.
func (c *tailConsumer) read(batch jetstream.MessageBatch, err error) (n int, _ error) {
	if err != nil {
		return 0, err
	}
	for msg := range batch.Messages() {
		if err != nil {
			continue // the batch must be emptied
		}
		err = c.receive(msg)
		n++
	}
	if err == nil {
		err = batch.Error()
	}
	return n, err
}

func (c *tailConsumer) receive(msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return mainstem.Errorf(mainstem.KindCorrupt, "read stream", "a message without metadata: %w", err)
	}
	c.number++
	if meta.Sequence.Consumer != c.number {
		return fmt.Errorf("message %d of the consumer was lost on the way", c.number)
	}
	c.next = meta.Sequence.Stream + 1
	if err := c.l.receive(msg, meta.Sequence.Stream); err != nil {
		c.l.breakDown(err)
		return err
	}
	return nil
}

// receive takes one message into the state.
func (l *Log) receive(msg jetstream.Msg, seq uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq <= l.st.seq {
		return nil // our own, or delivered twice
	}
	values := msg.Headers()[header]
	if len(values) == 0 {
		return mainstem.Errorf(mainstem.KindCorrupt, "read stream", "message %d of stream %s has no header %s: another program writes to %s", seq, l.opts.Stream, header, l.subject)
	}
	p, err := decodeHeader(values[0])
	if err != nil {
		return mainstem.Errorf(mainstem.KindCorrupt, "read stream", "message %d of stream %s: %w", seq, l.opts.Stream, err)
	}
	return l.takeLocked(p, seq)
}

// takeLocked takes the message with sequence seq into the state. A frame becomes
// true with its last message; if that never came, because the power failed, or if
// its first one is gone, because it is being deleted, it never does. It returns Corrupt
// for a frame that was not written on top of what the state has seen.
func (l *Log) takeLocked(p piece, seq uint64) error {
	if seq > l.st.seq+1 { // messages between have left the stream
		l.st.gap, l.st.unseen = true, max(l.st.unseen, p.base)
		l.claim.missed = l.claim.missed || l.claimOpenLocked()
	}
	// While the log is opened it takes the stream as it is.
	if l.loaded && p.part == 0 && (p.base < l.st.head || p.base > l.st.head && !l.st.gap) {
		return otherStream("message %d follows position %d, and the log is at %d", seq, p.base, l.st.head)
	}
	if p.part == 0 {
		l.abandonLocked()
		l.pending = &pending{frame: p.frame, seq: seq, parts: p.parts, seen: 1}
	} else if q := l.pending; q != nil && q.nonce == p.nonce && q.seq+uint64(q.seen) == seq && q.seen == p.part && q.parts == p.parts {
		q.facts = append(q.facts, p.facts...)
		q.head = p.head
		q.seen++
	} else {
		l.abandonLocked()
		l.torn = append(l.torn, seq)
	}
	if q := l.pending; q != nil && q.seen == q.parts {
		l.pending = nil
		l.applyLocked(&q.frame, &unit{seq: q.seq, parts: q.parts, nonce: q.nonce})
		return nil
	}
	l.st.seq = seq
	l.seqLocked()
	return nil
}

// otherStream is the error of a log whose stream is not the one that its state is of.
func otherStream(format string, args ...any) error {
	return mainstem.Errorf(mainstem.KindCorrupt, "read stream", "the stream is not the one that was read before: "+format, args...).
		WithHint("open the log again to go on with what the stream holds now")
}

// sameStream returns Corrupt if the stream was made anew since it was read, or has lost
// messages, as when its only server lost power, also if it has others in their place.
func (l *Log) sameStream(ctx context.Context) error {
	l.mu.RLock()
	seen, newest := l.st.seq, l.st.newest
	l.mu.RUnlock()
	created, last, err := l.askNow(ctx)
	// A server that has just become the leader may not have caught up with itself: see damageWait.
	for began := time.Now(); err == nil && last < seen && created.Equal(l.created) && time.Since(began) <= min(damageWait, l.opts.Timeout/2); {
		if !l.pause(retryPause) {
			return l.ctx.Err()
		}
		created, last, err = l.askNow(ctx)
	}
	switch {
	case err != nil:
		return err
	case !created.Equal(l.created):
		return otherStream("it was created at %v, not at %v", created, l.created)
	case last < seen:
		return otherStream("it ends with message %d, and message %d was read", last, seen)
	case newest == nil:
		return nil
	}
	p, err := l.pieceAt(newest.seq)
	switch {
	case errors.Is(err, errGone): // later messages have superseded it
		return nil
	case err == nil && p.nonce != newest.nonce || errors.Is(err, errFrame):
		return otherStream("message %d was another one", newest.seq)
	}
	return err
}

// askNow is askStream that waits no longer for a leader than begin does.
func (l *Log) askNow(ctx context.Context) (created time.Time, last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*l.pace.limit())
	defer cancel()
	return l.askStream(ctx)
}

// abandonLocked gives up the frame that is incomplete: another one has begun.
func (l *Log) abandonLocked() {
	if q := l.pending; q != nil {
		for i := range uint64(q.seen) {
			l.torn = append(l.torn, q.seq+i)
		}
		l.pending = nil
	}
}

// wakeFollowers lets every reader that waits look again.
func (l *Log) wakeFollowers() {
	l.followers.WakeAll(func(_ string, c chan<- struct{}) { wake.Signal(c) })
}

// breakDown makes the log unusable: the stream holds what this engine cannot read.
func (l *Log) breakDown(err error) {
	l.opts.Logger.Error("the log is unusable", "stream", l.opts.Stream, "error", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.damage = mapError("read stream", err)
	l.seqLocked()
	l.wakeFollowers()
}

var (
	_ mainstem.Log         = (*Log)(nil)
	_ mainstem.ClockKeeper = (*Log)(nil)
)
