package stream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

func clone(m stream.Message) stream.Message {
	return stream.Message{Key: bytes.Clone(m.Key), Value: bytes.Clone(m.Value)}
}

// memory is a contender that works, but for what its fields do to it.
type memory struct {
	send   func(ms []stream.Message) []stream.Message // what is stored of what was sent
	fetch  func(ms []stream.Message) []stream.Message // what is returned of what is there
	stored func(value []byte) []byte                  // what is stored of a table's value
	got    func(value []byte) []byte
	rows   func(keys []string) []string // what a scan returns
	frame  func(*frame)

	mu    sync.Mutex // guards the fields below
	ms    []stream.Message
	grown chan struct{}
	table map[string][]byte
	order []string
}

func same[T any](x T) T { return x }

// factory returns a contender that works, but for what change does to it.
func factory(change func(*memory)) stream.Factory {
	open := func() *memory {
		m := &memory{
			send: same[[]stream.Message], fetch: same[[]stream.Message], stored: same[[]byte], got: same[[]byte],
			rows: same[[]string], frame: func(*frame) {}, grown: make(chan struct{}), table: map[string][]byte{},
		}
		change(m)
		return m
	}
	return stream.Factory{
		Name: "fake", Durability: suite.Memory,
		Client:   func(context.Context, *suite.Env, string) (stream.Client, error) { return client{open()}, nil },
		Protocol: func() (stream.Protocol, error) { return protocol{open()}, nil },
		Log:      func(context.Context, *suite.Env, string) (stream.Log, error) { return open(), nil },
		Table:    func(context.Context, *suite.Env, string) (stream.Table, error) { return open(), nil },
	}
}

func (m *memory) Close() error { return nil }

func (m *memory) Append(_ context.Context, ms ...stream.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.send(ms) {
		m.ms = append(m.ms, clone(x))
	}
	close(m.grown)
	m.grown = make(chan struct{})
	return nil
}

// from returns what is there from a number on, and what tells when there is more.
func (m *memory) from(number int64) ([]stream.Message, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ms[min(int(number), len(m.ms)):], m.grown
}

func (m *memory) Read(_ context.Context, from int64, most int, f func(stream.Message) error) error {
	ms, _ := m.from(from)
	if len(ms) == 0 {
		return nil
	}
	got, n := 0, 0
	for n < len(ms) && got < most {
		got += len(ms[n].Key) + len(ms[n].Value)
		n++
	}
	for _, x := range m.fetch(ms[:n]) {
		if err := f(x); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Put(_ context.Context, key, value []byte) error {
	if _, ok := m.table[string(key)]; !ok {
		m.order = nil
	}
	if v := m.stored(value); v != nil {
		m.table[string(key)] = bytes.Clone(v)
	}
	return nil
}

func (m *memory) Get(_ context.Context, key []byte) ([]byte, error) {
	return m.got(m.table[string(key)]), nil
}

func (m *memory) Scan(_ context.Context, f func(key, value []byte) error) error {
	if m.order == nil {
		m.order = slices.Sorted(maps.Keys(m.table))
	}
	for _, k := range m.rows(m.order) {
		if err := f([]byte(k), m.got(m.table[k])); err != nil {
			return err
		}
	}
	return nil
}

// client is a memory that is produced to and consumed from.
type client struct{ *memory }

func (client) Create(context.Context, string) error { return nil }

func (c client) Producer(context.Context, string) (stream.Producer, error) { return producer{c}, nil }

type producer struct{ client }

func (p producer) Send(ctx context.Context, ms ...stream.Message) error { return p.Append(ctx, ms...) }

func (c client) Consumer(_ context.Context, _ string, from int64) (stream.Consumer, error) {
	return &consumer{c, from}, nil
}

type consumer struct {
	client
	next int64
}

func (c *consumer) Fetch(ctx context.Context) ([]stream.Message, error) {
	for {
		ms, grown := c.from(c.next)
		if len(ms) > 0 {
			c.next += int64(len(ms))
			return c.fetch(slices.Clone(ms)), nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// protocol writes frames as JSON.
type protocol struct{ *memory }

type frame struct {
	Topic    string
	Messages []stream.Message
	Fetch    stream.Fetch
}

func (p protocol) append(dst []byte, f frame) ([]byte, error) {
	b, err := json.Marshal(f)
	return append(dst, b...), err
}

func (p protocol) read(src []byte) (frame, error) {
	var f frame
	err := json.Unmarshal(src, &f)
	p.frame(&f)
	return f, err
}

func (p protocol) AppendProduce(dst []byte, topic string, ms []stream.Message) ([]byte, error) {
	return p.append(dst, frame{Topic: topic, Messages: ms})
}

func (p protocol) ReadProduce(src []byte, f func(stream.Message) error) (string, error) {
	fr, err := p.read(src)
	for _, m := range fr.Messages {
		if err == nil {
			err = f(m)
		}
	}
	return fr.Topic, err
}

func (p protocol) AppendFetch(dst []byte, f stream.Fetch) ([]byte, error) {
	return p.append(dst, frame{Fetch: f})
}

func (p protocol) ReadFetch(src []byte) (stream.Fetch, error) {
	fr, err := p.read(src)
	return fr.Fetch, err
}
