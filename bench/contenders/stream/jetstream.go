package stream

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

// jetStream is a NATS server with streams in files.
func jetStream(name string, d suite.Durability) stream.Factory {
	server, note := engines.NATS, "a stream in files, synced every two minutes"
	if d == suite.Fsync {
		server, note = engines.NATSSync, "a stream in files, with sync_interval: always"
	}
	return stream.Factory{
		Name: "nats-jetstream-" + name, Durability: d, Transport: suite.LoopbackTCP,
		Note: note + "; messages that are sent together are published without waiting for each; keys are headers; an ordered consumer",
		Client: func(ctx context.Context, env *suite.Env, dir string) (stream.Client, error) {
			address, stop, err := env.Serve(ctx, server, dir)
			if err != nil {
				return nil, err
			}
			return &natsClient{address, stop}, nil
		},
	}
}

type natsClient struct {
	address string
	stop    func() error
}

func (c *natsClient) Close() error { return c.stop() }

// connect returns a connection of its own.
func (c *natsClient) connect() (*nats.Conn, jetstream.JetStream, error) {
	conn, err := peers.ConnectNATS(c.address)
	if err != nil {
		return nil, nil, err
	}
	js, err := peers.JetStream(conn)
	if err != nil {
		conn.Close()
	}
	return conn, js, err
}

func (c *natsClient) Create(ctx context.Context, topic string) error {
	conn, js, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: topic, Subjects: []string{topic}})
	return err
}

func (c *natsClient) Producer(_ context.Context, topic string) (stream.Producer, error) {
	conn, js, err := c.connect()
	return &natsProducer{conn: conn, js: js, subject: topic}, err
}

type natsProducer struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	subject string
	acks    []jetstream.PubAckFuture
}

func (p *natsProducer) Close() error { p.conn.Close(); return nil }

// keyHeader carries the key of a message that has one.
const keyHeader = "Key"

func (p *natsProducer) message(m stream.Message) *nats.Msg {
	msg := &nats.Msg{Subject: p.subject, Data: m.Value}
	if m.Key != nil {
		msg.Header = nats.Header{keyHeader: {string(m.Key)}}
	}
	return msg
}

func (p *natsProducer) Send(ctx context.Context, ms ...stream.Message) error {
	if len(ms) == 1 {
		_, err := p.js.PublishMsg(ctx, p.message(ms[0]))
		return err
	}
	p.acks = p.acks[:0]
	for _, m := range ms {
		ack, err := p.js.PublishMsgAsync(p.message(m))
		if err != nil {
			return err
		}
		p.acks = append(p.acks, ack)
	}
	for _, ack := range p.acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (c *natsClient) Consumer(ctx context.Context, topic string, from int64) (stream.Consumer, error) {
	conn, js, err := c.connect()
	if err != nil {
		return nil, err
	}
	ordered, err := js.OrderedConsumer(ctx, topic, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(from) + 1,
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	it, err := ordered.Messages()
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsConsumer{conn: conn, it: it}, nil
}

type natsConsumer struct {
	conn *nats.Conn
	it   jetstream.MessagesContext
	one  [1]stream.Message
}

func (c *natsConsumer) Close() error {
	c.it.Stop()
	c.conn.Close()
	return nil
}

func (c *natsConsumer) Fetch(ctx context.Context) ([]stream.Message, error) {
	m, err := c.it.Next(jetstream.NextContext(ctx))
	if err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	c.one[0] = stream.Message{Value: m.Data()}
	if k, ok := m.Headers()[keyHeader]; ok {
		c.one[0].Key = []byte(k[0])
	}
	return c.one[:], nil
}
