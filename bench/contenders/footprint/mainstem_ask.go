package footprint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	contract "github.com/mainstemdev/mainstem"

	"github.com/mainstemdev/mainstem/bench/suites/footprint"
)

// space is where the keys are.
const space = "bench/keys"

func keyBytes(key int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(key)) }

func (s *server) Put(ctx context.Context, first int, values [][]byte) error {
	b := contract.NewBatch()
	b.Ensure(space, contract.Policy{History: 1})
	for i, v := range values {
		b.Put(space, keyBytes(first+i), v)
	}
	_, err := s.log.Commit(ctx, b)
	return err
}

func (s *server) Get(ctx context.Context, key int) ([]byte, error) {
	r, err := s.log.Get(ctx, space, keyBytes(key))
	return r.Value, err
}

func (s *server) Scan(ctx context.Context, f func(key int, value []byte) error) error {
	for r, err := range s.log.Scan(ctx, space, contract.Range{}) {
		if err == nil {
			err = f(int(binary.BigEndian.Uint64(r.Key)), r.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sendBatch is how many messages are sent together.
const sendBatch = 100

func (s *server) Fill(ctx context.Context, topic string, partitions, each int) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(s.kafka), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer c.Close()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, int32(partitions), 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, t)
	res, err := req.RequestWith(ctx, c)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(res.Topics[0].ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	value := make([]byte, footprint.MessageSize)
	var batch []*kgo.Record
	for i := range partitions * each {
		batch = append(batch, &kgo.Record{Partition: int32(i / each), Value: value})
		if len(batch) == sendBatch || i == partitions*each-1 {
			if err := c.ProduceSync(ctx, batch...).FirstErr(); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return nil
}

func (s *server) Ends(ctx context.Context, topic string) ([]int64, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(s.kafka))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	meta := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = &topic
	meta.Topics = append(meta.Topics, mt)
	known, err := meta.RequestWith(ctx, c)
	if err != nil {
		return nil, err
	}
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, p := range known.Topics[0].Partitions {
		lp := kmsg.NewListOffsetsRequestTopicPartition()
		lp.Partition, lp.Timestamp = p.Partition, -1 // the end
		t.Partitions = append(t.Partitions, lp)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = append(req.Topics, t)
	res, err := req.RequestWith(ctx, c)
	if err != nil {
		return nil, err
	}
	ends := make([]int64, len(t.Partitions))
	for _, topic := range res.Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			ends[p.Partition] = p.Offset
		}
	}
	return ends, nil
}

// connection speaks Kafka's protocol, as little of it as it can.
type connection struct {
	net.Conn
	asked int32
}

// askWait bounds one question.
const askWait = 10 * time.Second

func (s *server) Connect(ctx context.Context) (footprint.Connection, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.kafka)
	if err != nil {
		return nil, err
	}
	conn := &connection{Conn: c}
	if err := conn.Ask(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return conn, nil
}

// Ask asks which versions the server speaks.
func (c *connection) Ask() error {
	c.asked++
	if err := c.SetDeadline(time.Now().Add(askWait)); err != nil {
		return err
	}
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), c.asked)
	if _, err := c.Write(frame); err != nil {
		return err
	}
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	if id := int32(binary.BigEndian.Uint32(head[4:])); id != c.asked {
		return fmt.Errorf("the answer is to question %d, want %d", id, c.asked)
	}
	_, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[:]))-4)
	return err
}
