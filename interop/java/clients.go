package java

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Clients are the Java clients of one version of Kafka. The JVM starts with the first
// use and ends with Close.
type Clients struct {
	version string

	once  sync.Once
	agent *Agent
	err   error
}

// New returns the clients of a version: Kafka36 or Kafka41.
func New(version string) *Clients { return &Clients{version: version} }

// Close ends the JVM.
func (c *Clients) Close() error {
	if c.agent == nil {
		return nil
	}
	return c.agent.Close()
}

// Agent returns the JVM.
func (c *Clients) Agent(ctx context.Context) (*Agent, error) {
	c.once.Do(func() { c.agent, c.err = StartAgent(context.WithoutCancel(ctx), c.version) })
	return c.agent, c.err
}

// Library returns the clients as a column of the table.
func (c *Clients) Library() kafka.Library {
	l := kafka.Library{Name: "Java " + c.version, New: func(at kafka.Endpoint) kafka.Client { return library{c, at} }}
	if c.version == Kafka36 {
		l.Cannot = map[string]string{"group-next": "the protocol of KIP-848 came with later versions"}
	}
	return l
}

// library makes the parts of the Java library for one endpoint.
type library struct {
	clients *Clients
	at      kafka.Endpoint
}

// config is what a Java client is configured with.
type config map[string]any

// config adds what all clients need to the rest.
func (l library) config(c config) config {
	c["bootstrap.servers"] = l.at.Address
	c["request.timeout.ms"] = 10_000
	c["reconnect.backoff.ms"], c["reconnect.backoff.max.ms"], c["retry.backoff.ms"] = 10, 100, 20
	protocol := "PLAINTEXT"
	if l.at.CA != "" {
		protocol, c["ssl.truststore.type"], c["ssl.truststore.location"] = "SSL", "PEM", l.at.CA
	}
	if l.at.Mechanism != "" {
		module := "org.apache.kafka.common.security.scram.ScramLoginModule"
		if l.at.Mechanism == "PLAIN" {
			module = "org.apache.kafka.common.security.plain.PlainLoginModule"
		}
		protocol, c["sasl.mechanism"] = "SASL_"+protocol, l.at.Mechanism
		c["sasl.jaas.config"] = fmt.Sprintf("%s required username=%q password=%q;", module, l.at.User, l.at.Password)
	}
	c["security.protocol"] = protocol
	return c
}

func (l library) open(ctx context.Context, args map[string]any) (*client, error) {
	agent, err := l.clients.Agent(ctx)
	if err != nil {
		return nil, err
	}
	return agent.open(ctx, args)
}

// producerArgs are those of Producing.java.
func (l library) producerArgs(o kafka.ProducerOptions) map[string]any {
	c := config{"acks": fmt.Sprint(int(o.Acks)), "compression.type": o.Codec, "enable.idempotence": o.Idempotent, "linger.ms": 2, "max.block.ms": 30_000}
	if o.TransactionalID != "" {
		// A test that leaves a transaction open has to find it open as late as it looks.
		c["transactional.id"], c["transaction.timeout.ms"] = o.TransactionalID, 600_000
	}
	return map[string]any{"kind": "producer", "topic": o.Topic, "config": l.config(c)}
}

// Producer opens a KafkaProducer.
func (l library) Producer(ctx context.Context, o kafka.ProducerOptions) (kafka.Producer, error) {
	c, err := l.open(ctx, l.producerArgs(o))
	return producer{c}, err
}

type producer struct{ c *client }

func (p producer) Send(ctx context.Context, records []kafka.Record) error {
	var offsets []int64
	if err := p.c.call(ctx, "send", map[string]any{"records": toEntries(records)}, &offsets); err != nil {
		return err
	}
	for i := range records {
		records[i].Offset = offsets[i]
	}
	return nil
}

func (p producer) Begin() error                     { return p.c.call(p.c.life, "begin", nil, nil) }
func (p producer) Commit(ctx context.Context) error { return p.c.call(ctx, "commit", nil, nil) }
func (p producer) Abort(ctx context.Context) error  { return p.c.call(ctx, "abort", nil, nil) }
func (p producer) Close() error                     { return p.c.close() }

// Consumer opens a KafkaConsumer.
func (l library) Consumer(ctx context.Context, o kafka.ConsumerOptions) (kafka.Consumer, error) {
	c := config{"auto.offset.reset": "earliest", "enable.auto.commit": false, "fetch.max.wait.ms": 100}
	if o.ReadCommitted {
		c["isolation.level"] = "read_committed"
	}
	if o.Group != "" {
		c["group.id"] = o.Group
	}
	switch {
	case o.Next:
		c["group.protocol"] = "consumer"
	case o.Group != "":
		c["session.timeout.ms"], c["heartbeat.interval.ms"] = o.Session().Milliseconds(), 500
	}
	if o.InstanceID != "" {
		c["group.instance.id"] = o.InstanceID
	}
	start := []string{kafka.AtStart: "start", kafka.AtEnd: "end", kafka.AtTime: "time"}[o.Start]
	opened, err := l.open(ctx, map[string]any{
		"kind": "consumer", "topic": o.Topic, "config": l.config(c), "start": start, "time": o.Time.UnixMilli(),
	})
	return consumer{opened}, err
}

type consumer struct{ c *client }

// pollLimit is how long one call of poll may take, of which the consumer waits a tenth
// of a second: longer means that the JVM has stopped.
const pollLimit = time.Minute

// Poll asks again and again. The end of ctx does not interrupt a call that was made: the
// consumer's position would move past records that nobody got.
func (c consumer) Poll(ctx context.Context) ([]kafka.Record, error) {
	for ctx.Err() == nil {
		got, err := c.poll()
		if err != nil || len(got) > 0 {
			return toRecords(got), err
		}
	}
	return nil, ctx.Err()
}

func (c consumer) poll() (got []entry, err error) {
	ctx, cancel := context.WithTimeout(c.c.life, pollLimit)
	defer cancel()
	err = c.c.call(ctx, "poll", nil, &got)
	return got, err
}

func (c consumer) Commit(ctx context.Context) error { return c.c.call(ctx, "commit", nil, nil) }
func (c consumer) Close() error                     { return c.c.close() }

// Move sends the consumer's positions to the transaction.
func (l library) Move(ctx context.Context, o kafka.MoveOptions) ([]kafka.Record, error) {
	in, err := l.Consumer(ctx, kafka.ConsumerOptions{Topic: o.From, Group: o.Group, ReadCommitted: true})
	if err != nil {
		return nil, err
	}
	args := l.producerArgs(kafka.ProducerOptions{
		Topic: o.To, Acks: kafka.AcksAll, Codec: "none", Idempotent: true, TransactionalID: o.TransactionalID,
	})
	args["n"], args["commit"] = o.N, o.Commit
	var moved []entry
	err = in.(consumer).c.call(ctx, "move", args, &moved)
	if closed := in.Close(); err == nil {
		err = closed
	}
	return toRecords(moved), err
}

// entry is a record as the agent writes and reads it.
type entry struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Key       []byte `json:"key"`
	Value     []byte `json:"value"`
	Headers   []pair `json:"headers"`
	Time      *int64 `json:"time"` // milliseconds; nil is the time of sending
}

type pair struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

func toEntries(records []kafka.Record) []entry {
	es := make([]entry, len(records))
	for i, r := range records {
		es[i] = entry{Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value}
		if !r.Time.IsZero() {
			ms := r.Time.UnixMilli()
			es[i].Time = &ms
		}
		for _, h := range r.Headers {
			es[i].Headers = append(es[i].Headers, pair(h))
		}
	}
	return es
}

func toRecords(es []entry) []kafka.Record {
	var records []kafka.Record
	for _, e := range es {
		r := kafka.Record{Partition: e.Partition, Offset: e.Offset, Key: e.Key, Value: e.Value, Time: time.UnixMilli(*e.Time)}
		for _, h := range e.Headers {
			r.Headers = append(r.Headers, kafka.Header(h))
		}
		records = append(records, r)
	}
	return records
}
