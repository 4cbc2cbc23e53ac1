package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem/bench/suite"
)

const (
	topicName = "bench"
	batchSize = 100 // messages of one batched send
)

// Patience is how long messages that are there, or were sent, may be on their way.
const Patience = 30 * time.Second

// patience is what tests shorten.
var patience = Patience

// sizes are the values' sizes.
var sizes = []struct {
	name  string
	bytes int
}{{"100b", 100}, {"1k", 1 << 10}, {"10k", 10 << 10}}

// load is what the producers of a case send.
type load struct {
	key, size, batch, producers int
}

func clientEntries(f Factory) []suite.Entry {
	entries := []suite.Entry{sendEntry(f, "client/send/43b", load{13, 30, 1, 1})}
	for _, s := range sizes {
		entries = append(entries,
			sendEntry(f, "client/send/"+s.name, load{0, s.bytes, 1, 1}),
			sendEntry(f, "client/send-batch/"+s.name, load{0, s.bytes, batchSize, 1}),
			fetchEntry(f, "client/fetch/"+s.name, s.bytes, batchSize),
		)
	}
	for _, n := range []int{10, 100} {
		p := "/producers-" + strconv.Itoa(n)
		entries = append(entries,
			sendEntry(f, "client/send/1k"+p, load{0, 1 << 10, 1, n}),
			sendEntry(f, "client/send-batch/1k"+p, load{0, 1 << 10, batchSize, n}),
		)
	}
	return append(entries, fetchEntry(f, "client/fetch-singles/1k", 1<<10, 1), endToEndEntry(f))
}

// fixture is an open client with a topic.
type fixture struct {
	Client
	closers []io.Closer // before the client
}

func openFixture(ctx context.Context, f Factory, env *suite.Env) (*fixture, error) {
	c, err := f.Client(ctx, env, env.Dir)
	if err != nil {
		return nil, err
	}
	b := &fixture{Client: c}
	if err := c.Create(ctx, topicName); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Close closes all producers and consumers and then the client.
func (b *fixture) Close() error {
	var errs []error
	for _, c := range b.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, b.Client.Close())...)
}

func (b *fixture) producer(ctx context.Context) (Producer, error) {
	p, err := b.Producer(ctx, topicName)
	if err == nil {
		b.closers = append(b.closers, p)
	}
	return p, err
}

// read calls f for n messages from number from on, with a consumer of its own.
func (b *fixture) read(ctx context.Context, from int64, n int, f func(Message) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%d messages from %d on did not come within %s", n, from, patience))
	defer cancel()
	c, err := b.Consumer(ctx, topicName, from)
	if err != nil {
		return err
	}
	return errors.Join(take(ctx, c, n, f), c.Close())
}

// take calls f for the next n messages of a consumer.
func take(ctx context.Context, c Consumer, n int, f func(Message) error) error {
	for n > 0 {
		ms, err := c.Fetch(ctx)
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if len(ms) == 0 {
			return errors.New("a fetch returned no message")
		}
		for _, m := range ms[:min(n, len(ms))] {
			if err := f(m); err != nil {
				return err
			}
		}
		n -= len(ms)
	}
	return nil
}

func sendEntry(f Factory, name string, l load) suite.Entry {
	about := fmt.Sprintf("send %d message of %d bytes and wait until it is acknowledged", l.batch, l.key+l.size)
	if l.batch > 1 {
		about = fmt.Sprintf("send %d messages of %d bytes together and wait until all are acknowledged", l.batch, l.size)
	}
	curve := "send"
	if l.batch > 1 {
		curve = "send-batch"
	}
	e := suite.Entry{
		Case: name, About: about, Op: "message", Items: l.batch, BytesPerOp: int64(l.batch * (l.key + l.size)), Clients: l.producers,
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			b, err := openFixture(ctx, f, env)
			if err != nil {
				return nil, err
			}
			s := &sending{fixture: b, load: l}
			if err := s.start(ctx); err != nil {
				return nil, errors.Join(err, b.Close())
			}
			return &suite.Round{Run: s.run, Check: s.check, Close: b.Close}, nil
		},
	}
	if l.size == 1<<10 {
		e.Curve = &suite.Curve{Name: curve, Axis: "producers", X: float64(l.producers)}
	}
	return e
}

// sending is producers and what they have sent.
type sending struct {
	*fixture
	load
	producers []Producer
	data      []*stamped
	checked   int64 // messages in the topic that have been read back
	verifier  *verifier
}

// start connects the producers; each sends something, so that it is connected.
func (s *sending) start(ctx context.Context) error {
	s.verifier = newVerifier(s.key, s.size)
	for i := range s.load.producers {
		p, err := s.producer(ctx)
		if err != nil {
			return err
		}
		s.producers = append(s.producers, p)
		s.data = append(s.data, newStamped(i, s.batch, s.key, s.size))
		if err := p.Send(ctx, s.data[i].batch()...); err != nil {
			return err
		}
	}
	return s.check(ctx)
}

func (s *sending) run(ctx context.Context, n int, rec *suite.Recorder) error {
	return suite.Parallel(ctx, n, len(s.producers), rec, func(ctx context.Context, client, _ int) error {
		return s.producers[client].Send(ctx, s.data[client].batch()...)
	})
}

// check reads back what was sent since the last check.
func (s *sending) check(ctx context.Context) error {
	var sent int64
	for _, d := range s.data {
		sent += int64(d.next)
	}
	if err := s.read(ctx, s.checked, int(sent-s.checked), s.verifier.whole); err != nil {
		return err
	}
	s.checked = sent
	for i, d := range s.data {
		if got := s.verifier.next[uint32(i)]; got != d.next {
			return fmt.Errorf("producer %d sent %d messages, %d of them are there", i, d.next, got)
		}
	}
	return nil
}

// stored is how many messages a topic holds that is fetched from: 64 MiB of them,
// or fewer where storing them takes long.
func stored(env *suite.Env, size, batch int) (messages int) {
	most := 100_000
	if batch == 1 {
		most /= 100 // each takes a sync of its own
	}
	if env.Quick && batch == 1 {
		most /= 4
	} else if env.Quick {
		most /= 20
	}
	return max(min(64<<20/size, most)/batchSize, 1) * batchSize
}

// fetched is how many messages a round fetches at least: each begins with a consumer
// that connects.
func fetched(size, batch int) int {
	switch {
	case batch == 1:
		return 200
	case size > 1<<10:
		return 1000
	}
	return 5000
}

func fetchEntry(f Factory, name string, size, batch int) suite.Entry {
	how := "in batches of " + strconv.Itoa(batch)
	if batch == 1 {
		how = "one by one"
	}
	return suite.Entry{
		Case: name, About: "fetch messages that were stored " + how + ", from the first to the last and, with a new consumer that connects anew, again; latencies are those of a fetch, which returns several",
		Op: "message", BytesPerOp: int64(size), Least: fetched(size, batch),
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			b, err := openFixture(ctx, f, env)
			if err != nil {
				return nil, err
			}
			r := &fetching{fixture: b, size: size, messages: stored(env, size, batch)}
			if err := r.fill(ctx, batch); err != nil {
				return nil, errors.Join(err, b.Close())
			}
			return &suite.Round{Run: r.run, Check: r.check, Close: b.Close}, nil
		},
	}
}

// fetching is a topic that holds messages.
type fetching struct {
	*fixture
	size, messages int
}

func (r *fetching) fill(ctx context.Context, batch int) error {
	p, err := r.producer(ctx)
	if err != nil {
		return err
	}
	data := newStamped(0, batch, 0, r.size)
	for range r.messages / batch {
		if err := p.Send(ctx, data.batch()...); err != nil {
			return err
		}
	}
	return r.check(ctx)
}

func (r *fetching) run(ctx context.Context, n int, rec *suite.Recorder) error {
	w := rec.Worker()
	for n > 0 {
		part := min(n, r.messages)
		if err := r.pass(ctx, part, w); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

// pass fetches the first n messages with a new consumer.
func (r *fetching) pass(ctx context.Context, n int, w *suite.Worker) error {
	c, err := r.Consumer(ctx, topicName, 0)
	if err != nil {
		return err
	}
	v := newVerifier(0, r.size)
	return errors.Join(take(ctx, &timed{c, w}, n, v.number), c.Close())
}

// timed records the latency of fetches.
type timed struct {
	Consumer
	w *suite.Worker
}

func (t *timed) Fetch(ctx context.Context) ([]Message, error) {
	began := t.w.Begin()
	ms, err := t.Consumer.Fetch(ctx)
	t.w.End(began)
	return ms, err
}

// check compares every byte of what a fetch returns, from the start and from the middle.
func (r *fetching) check(ctx context.Context) error {
	v := newVerifier(0, r.size)
	if err := r.read(ctx, 0, r.messages, v.whole); err != nil {
		return err
	}
	middle := r.messages / 2
	v.next[0] = uint64(middle)
	return r.read(ctx, int64(middle), r.messages-middle, v.whole)
}
