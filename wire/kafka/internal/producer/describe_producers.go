package producer

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// DescribeProducers (key 61), version 0 (KIP-664).
//
// The last timestamp is the time of the newest batch or marker of the producer, by the clock of the
// server. The epoch of the coordinator is 0, because coordinators have none here.

// DescribeProducers returns the producers of partitions. Each partition gets its own error code.
func (m *Manager) DescribeProducers(ctx context.Context, _ coord.Client, req *kmsg.DescribeProducersRequest) *kmsg.DescribeProducersResponse {
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	for _, t := range req.Topics {
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = t.Topic
		tp, err := m.catalog.Topic(ctx, t.Topic)
		for _, num := range t.Partitions {
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition = num
			if err == nil && (num < 0 || num >= tp.Partitions()) {
				p.ErrorCode = kerr.UnknownTopicOrPartition.Code
			} else {
				p.ActiveProducers, p.ErrorCode = m.activeProducers(ctx, tp, num, err)
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

type activeProducer = kmsg.DescribeProducersResponseTopicPartitionActiveProducer

// activeProducers returns the producers of a partition, or the error code. err is the error of the
// look-up of its topic; without one the partition must exist.
func (m *Manager) activeProducers(ctx context.Context, t *topic.Topic, num int32, err error) ([]activeProducer, int16) {
	var out []activeProducer
	if err == nil {
		out, err = m.partition(t, num).describe(ctx, t)
	}
	switch {
	case err == nil:
		return out, 0
	case errors.Is(err, mainstem.ErrInvalid):
		return nil, kerr.InvalidTopicException.Code
	}
	return nil, m.code("DescribeProducers", err)
}

// describe returns the producers of the partition, by id.
func (p *partitionState) describe(ctx context.Context, t *topic.Topic) ([]activeProducer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadLocked(ctx, t); err != nil {
		return nil, err
	}
	var out []activeProducer
	for _, e := range p.producers {
		if e.epoch < 0 {
			continue // its first batch is not committed yet
		}
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch, a.LastTimestamp = e.pid, int32(e.epoch), e.time
		a.CurrentTxnStartOffset, a.LastSequence, a.CoordinatorEpoch = e.first, -1, 0
		if e.n > 0 {
			a.LastSequence = e.window[e.n-1].lastSeq
		}
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b activeProducer) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return out, nil
}
