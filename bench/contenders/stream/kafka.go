package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

const overKafka = "client franz-go: acks=all, idempotent, no compression, no linger"

// kafka is a server of Kafka's protocol that the user names.
func kafka() stream.Factory {
	return stream.Factory{
		Name: "kafka", Durability: "as configured", Note: "the Kafka or Redpanda server at the address given; " + overKafka,
		Skip: func(env *suite.Env) string { _, skip := env.Address("kafka"); return skip },
		Client: func(ctx context.Context, env *suite.Env, _ string) (stream.Client, error) {
			address, _ := env.Address("kafka")
			return dial(ctx, strings.Split(address, ","), func() error { return nil })
		},
	}
}

// broker is a contender whose server the bench starts.
func broker(s suite.Server, d suite.Durability, note string) stream.Factory {
	return stream.Factory{
		Name: s.Name, Durability: d, Note: note + "; " + overKafka,
		Client: func(ctx context.Context, env *suite.Env, dir string) (stream.Client, error) {
			address, stop, err := env.Serve(ctx, s, dir)
			if err != nil {
				return nil, err
			}
			return dial(ctx, []string{address}, stop)
		},
	}
}

// kafkaClient is clients of one server.
type kafkaClient struct {
	ctx    context.Context // of Close, which has none of its own
	seeds  []string
	admin  *kgo.Client
	stop   func() error
	suffix string // of the names of topics, which may outlive a run that was killed
	topics []string
}

func dial(ctx context.Context, seeds []string, stop func() error) (stream.Client, error) {
	c := &kafkaClient{ctx: context.WithoutCancel(ctx), seeds: seeds, stop: stop, suffix: fmt.Sprintf("-%08x", rand.Uint32())}
	var err error
	if c.admin, err = c.client(); err != nil {
		return nil, errors.Join(err, stop())
	}
	return c, nil
}

func (c *kafkaClient) client(o ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.seeds...)}, o...)...)
}

func (c *kafkaClient) Create(ctx context.Context, topic string) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic+c.suffix, 1, 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, t)
	res, err := req.RequestWith(ctx, c.admin)
	if err != nil {
		return err
	}
	c.topics = append(c.topics, t.Topic)
	return kerr.ErrorForCode(res.Topics[0].ErrorCode)
}

// deleteWait bounds the clean-up.
const deleteWait = 10 * time.Second

func (c *kafkaClient) Close() error {
	defer c.admin.Close()
	ctx, cancel := context.WithTimeout(c.ctx, deleteWait)
	defer cancel()
	req := kmsg.NewPtrDeleteTopicsRequest()
	for _, name := range c.topics {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		req.Topics, req.TopicNames = append(req.Topics, t), append(req.TopicNames, name)
	}
	_, err := req.RequestWith(ctx, c.admin)
	return errors.Join(err, c.stop())
}

func (c *kafkaClient) Producer(_ context.Context, topic string) (stream.Producer, error) {
	cl, err := c.client(
		kgo.DefaultProduceTopic(topic+c.suffix), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	return &kafkaProducer{client: cl}, err
}

type kafkaProducer struct {
	client  *kgo.Client
	records []*kgo.Record
}

func (p *kafkaProducer) Close() error { p.client.Close(); return nil }

func (p *kafkaProducer) Send(ctx context.Context, ms ...stream.Message) error {
	p.records = p.records[:0]
	for _, m := range ms {
		p.records = append(p.records, &kgo.Record{Key: m.Key, Value: m.Value})
	}
	return p.client.ProduceSync(ctx, p.records...).FirstErr()
}

func (c *kafkaClient) Consumer(_ context.Context, topic string, from int64) (stream.Consumer, error) {
	cl, err := c.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic + c.suffix: {0: kgo.NewOffset().At(from)}}))
	return &kafkaConsumer{client: cl}, err
}

type kafkaConsumer struct {
	client *kgo.Client
	ms     []stream.Message
}

func (c *kafkaConsumer) Close() error { c.client.Close(); return nil }

func (c *kafkaConsumer) Fetch(ctx context.Context) ([]stream.Message, error) {
	c.ms = c.ms[:0]
	for len(c.ms) == 0 {
		fetches := c.client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) { c.ms = append(c.ms, stream.Message{Key: r.Key, Value: r.Value}) })
	}
	return c.ms, nil
}
