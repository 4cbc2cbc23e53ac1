package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

const overKafka = "client franz-go: acks=all, idempotent, no compression, no linger"

// kafka is a server of Kafka's protocol that the user names, if its topics have
// durability d.
func kafka(name string, d suite.Durability) stream.Factory {
	note := "the Kafka or Redpanda server at the address given, its topics as it is configured"
	if d == suite.Fsync {
		note = "the Kafka or Redpanda server at the address given, with flush.messages=1 for the topic"
	}
	return stream.Factory{
		Name: "kafka-" + name, Durability: d, Transport: suite.LoopbackTCP, Address: "kafka", Note: note + "; " + overKafka,
		Skip: suite.NeedAddress("kafka"),
		Client: func(ctx context.Context, env *suite.Env, _ string) (stream.Client, error) {
			address, err := env.Address("kafka")
			if err != nil {
				return nil, err
			}
			c, err := dial(ctx, strings.Split(address, ","), func() error { return nil })
			if err != nil {
				return nil, err
			}
			c.durability = d
			return c, nil
		},
	}
}

// broker is a contender whose server the bench starts.
func broker(s suite.Server, d suite.Durability, note string) stream.Factory {
	return stream.Factory{
		Name: s.Name, Durability: d, Transport: suite.LoopbackTCP, Note: note + "; " + overKafka,
		Client: func(ctx context.Context, env *suite.Env, dir string) (stream.Client, error) {
			address, stop, err := env.Serve(ctx, s, dir)
			if err != nil {
				return nil, err
			}
			c, err := dial(ctx, []string{address}, stop)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
	}
}

// kafkaClient is clients of one server.
type kafkaClient struct {
	ctx        context.Context // of Close, which has none of its own
	seeds      []string
	admin      *conn
	stop       func() error
	suffix     string // of the names of topics, which may outlive a run that was killed
	topics     []string
	durability suite.Durability // that topics must have; "" means that it is known
}

func dial(ctx context.Context, seeds []string, stop func() error) (*kafkaClient, error) {
	c := &kafkaClient{ctx: context.WithoutCancel(ctx), seeds: seeds, stop: stop, suffix: fmt.Sprintf("-%08x", rand.Uint32())}
	var err error
	if c.admin, err = c.client(); err != nil {
		return nil, errors.Join(err, stop())
	}
	return c, nil
}

func (c *kafkaClient) client(o ...kgo.Opt) (*conn, error) {
	return connect(append([]kgo.Opt{kgo.SeedBrokers(c.seeds...)}, o...)...)
}

// The settings of a topic that say when Kafka syncs it, and that of Redpanda, which
// syncs before it acknowledges unless its cache is on.
const (
	flushMessages = "flush.messages"
	flushTime     = "flush.ms"
	writeCaching  = "write.caching"
)

// Create creates a topic. A server of another durability than the row's is skipped.
func (c *kafkaClient) Create(ctx context.Context, topic string) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic+c.suffix, 1, 1
	if c.durability == suite.Fsync {
		each, setting := "1", kmsg.NewCreateTopicsRequestTopicConfig()
		setting.Name, setting.Value = flushMessages, &each
		t.Configs = append(t.Configs, setting)
	}
	created, err := c.create(ctx, t)
	if errors.Is(err, kerr.InvalidConfig) {
		t.Configs = nil // it does not know the setting; what it is set to shows below
		created, err = c.create(ctx, t)
	}
	if err != nil {
		return err
	}
	if found := durability(created.Configs); c.durability != "" && found != c.durability {
		return suite.Skipf("the server at %s is configured for durability %s", strings.Join(c.seeds, ","), found)
	}
	return nil
}

func (c *kafkaClient) create(ctx context.Context, t kmsg.CreateTopicsRequestTopic) (*kmsg.CreateTopicsResponseTopic, error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, t)
	res, err := req.RequestWith(ctx, c.admin.Client)
	switch {
	case err != nil:
		return nil, c.admin.explain(err)
	case len(res.Topics) != 1:
		return nil, fmt.Errorf("the server answered for %d topics, not for %s", len(res.Topics), t.Topic)
	}
	created := &res.Topics[0]
	if err := kerr.ErrorForCode(created.ErrorCode); err != nil {
		if created.ErrorMessage != nil {
			err = fmt.Errorf("%w: %s", err, *created.ErrorMessage)
		}
		return nil, fmt.Errorf("create topic %s: %w", t.Topic, err)
	}
	c.topics = append(c.topics, t.Topic)
	return created, nil
}

// durability says what the settings of a topic make of a message that was
// acknowledged by all replicas.
func durability(settings []kmsg.CreateTopicsResponseTopicConfig) suite.Durability {
	is := map[string]string{}
	for _, s := range settings {
		if s.Value != nil {
			is[s.Name] = *s.Value
		}
	}
	if cached, ok := is[writeCaching]; ok {
		if cached == "true" {
			return suite.Interval
		}
		return suite.Fsync
	}
	switch messages, wait := limit(is[flushMessages]), limit(is[flushTime]); {
	case messages == 1:
		return suite.Fsync
	case messages < math.MaxInt64 || wait < math.MaxInt64:
		return suite.Interval
	}
	return suite.OS
}

// limit returns the number that a setting is, by default none that is ever reached.
func limit(setting string) int64 {
	if n, err := strconv.ParseInt(setting, 10, 64); err == nil {
		return n
	}
	return math.MaxInt64
}

// deleteWait bounds the clean-up.
const deleteWait = 10 * time.Second

// Close deletes the topics: the server may be somebody's.
func (c *kafkaClient) Close() error {
	return errors.Join(c.remove(), c.admin.Close(), c.stop())
}

func (c *kafkaClient) remove() error {
	if len(c.topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, deleteWait)
	defer cancel()
	req := kmsg.NewPtrDeleteTopicsRequest()
	for _, name := range c.topics {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		req.Topics, req.TopicNames = append(req.Topics, t), append(req.TopicNames, name)
	}
	res, err := req.RequestWith(ctx, c.admin.Client)
	if err != nil {
		return fmt.Errorf("delete topics %v: %w", c.topics, c.admin.explain(err))
	}
	for _, t := range res.Topics {
		if failed := kerr.ErrorForCode(t.ErrorCode); failed != nil {
			err = errors.Join(err, fmt.Errorf("delete one of topics %v: %w", c.topics, failed))
		}
	}
	return err
}

func (c *kafkaClient) Producer(_ context.Context, topic string) (stream.Producer, error) {
	cl, err := c.client(
		kgo.DefaultProduceTopic(topic+c.suffix), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		return nil, err
	}
	return &kafkaProducer{conn: cl}, nil
}

type kafkaProducer struct {
	*conn
	records []*kgo.Record
}

func (p *kafkaProducer) Send(ctx context.Context, ms ...stream.Message) error {
	p.records = p.records[:0]
	for _, m := range ms {
		p.records = append(p.records, &kgo.Record{Key: m.Key, Value: m.Value})
	}
	return p.explain(p.ProduceSync(ctx, p.records...).FirstErr())
}

func (c *kafkaClient) Consumer(_ context.Context, topic string, from int64) (stream.Consumer, error) {
	cl, err := c.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic + c.suffix: {0: kgo.NewOffset().At(from)}}))
	if err != nil {
		return nil, err
	}
	return &kafkaConsumer{conn: cl}, nil
}

type kafkaConsumer struct {
	*conn
	ms []stream.Message
}

func (c *kafkaConsumer) Fetch(ctx context.Context) ([]stream.Message, error) {
	c.ms = c.ms[:0]
	for len(c.ms) == 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, c.explain(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { c.ms = append(c.ms, stream.Message{Key: r.Key, Value: r.Value}) })
	}
	return c.ms, nil
}
