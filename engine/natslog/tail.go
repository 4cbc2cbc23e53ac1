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
	if l.complete() && l.reading == nil {
		err = l.attach(life, c, l.seen()+1, l.receive)
	} else {
		err = l.rebuild(life, c)
	}
	if err != nil {
		return err
	}
	for life.Err() == nil {
		if from := l.seen() + 1; from > c.next+tailBehind {
			if err := c.begin(life, from); err != nil {
				return err
			}
		}
		n, err := c.poll()
		if err == nil {
			read()
			if n > 0 {
				continue
			}
			if _, err = c.wait(life); err == nil {
				l.quiet()
				continue
			}
		}
		if errors.Is(err, errMissed) {
			l.opts.Logger.Warn("messages left the stream before they were read; the state is read anew", "stream", l.opts.Stream, "after", l.seen())
			err = l.rebuild(life, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// attach makes a consumer of the stream that begins with the message from and gives what it
// reads to take.
func (l *Log) attach(ctx context.Context, c *tailConsumer, from uint64, take func(piece, uint64) error) error {
	c.take = take
	if err := c.begin(ctx, from); err != nil {
		return err
	}
	err := l.sameStream(ctx)
	if mainstem.KindOf(err) == mainstem.KindCorrupt {
		l.breakDown(err)
	}
	return err
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
	take     func(p piece, seq uint64) error // errors but errMissed make the log unusable
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
	*c = tailConsumer{l: c.l, take: c.take, consumer: consumer, next: from}
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

// poll reads the messages that there are.
func (c *tailConsumer) poll() (n int, err error) {
	return c.read(c.consumer.FetchNoWait(tailMessages))
}

// wait reads the next message, for which it waits at most tailWait.
func (c *tailConsumer) wait(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, tailWait)
	defer cancel()
	n, err = c.read(c.consumer.Fetch(1, jetstream.FetchContext(ctx), jetstream.FetchHeartbeat(c.l.heartbeat())))
	if errors.Is(err, nats.ErrNoHeartbeat) || errors.Is(err, jetstream.ErrNoHeartbeat) {
		c.l.pace.note(c.l.pace.limit(), true)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return n, err
}

// read takes messages and returns how many there were.
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
	p, err := c.l.decode(msg, meta.Sequence.Stream)
	if err == nil {
		err = c.take(p, meta.Sequence.Stream)
	}
	if err != nil && !errors.Is(err, errMissed) {
		c.l.breakDown(err)
	}
	return err
}

// decode returns what a message of the stream states.
func (l *Log) decode(msg jetstream.Msg, seq uint64) (piece, error) {
	values := msg.Headers()[header]
	if len(values) == 0 {
		return piece{}, mainstem.Errorf(mainstem.KindCorrupt, "read stream", "message %d of stream %s has no header %s: another program writes to %s", seq, l.opts.Stream, header, l.subject)
	}
	p, err := decodeHeader(values[0])
	if err != nil {
		return piece{}, mainstem.Errorf(mainstem.KindCorrupt, "read stream", "message %d of stream %s: %w", seq, l.opts.Stream, err)
	}
	return p, nil
}

// receive takes one message into the state.
func (l *Log) receive(p piece, seq uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq <= l.st.seq {
		return nil // our own, or delivered twice
	}
	return l.takeLocked(p, seq)
}

// sameStream returns Corrupt if the stream was made anew since it was read, or has lost
// messages, as when its only server lost power, also if it has others in their place.
func (l *Log) sameStream(ctx context.Context) error {
	l.mu.RLock()
	seen, newest := l.st.seq, []*unit{l.st.newest}
	l.mu.RUnlock()
	if r := l.reading; r != nil {
		seen, newest = max(seen, r.st.seq), append(newest, r.st.newest)
	}
	now, err := l.askNow(ctx)
	// A server that has just become the leader may not have caught up with itself: see damageWait.
	for began := time.Now(); err == nil && now.last < seen && now.created.Equal(l.created) && time.Since(began) <= min(damageWait, l.opts.Timeout/2); {
		if !l.pause(retryPause) {
			return l.ctx.Err()
		}
		now, err = l.askNow(ctx)
	}
	switch {
	case err != nil:
		return err
	case !now.created.Equal(l.created):
		return otherStream("it was created at %v, not at %v", now.created, l.created)
	case now.last < seen:
		return otherStream("it ends with message %d, and message %d was read", now.last, seen)
	}
	for _, u := range newest {
		if err := l.sameUnit(u); err != nil {
			return err
		}
	}
	return nil
}

// sameUnit returns Corrupt if the stream holds another frame where u was read. One that later
// messages have superseded may be gone.
func (l *Log) sameUnit(u *unit) error {
	if u == nil {
		return nil
	}
	p, err := l.pieceAt(u.seq)
	switch {
	case errors.Is(err, errGone):
		return nil
	case err == nil && p.nonce != u.nonce || errors.Is(err, errFrame):
		return otherStream("message %d was another one", u.seq)
	}
	return err
}

// askNow is askStream that waits no longer for a leader than begin does.
func (l *Log) askNow(ctx context.Context) (streamNow, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*l.pace.limit())
	defer cancel()
	return l.askStream(ctx)
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
