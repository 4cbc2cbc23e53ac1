package franz

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Move uses a GroupTransactSession: one client that reads, sends and commits.
func (c client) Move(ctx context.Context, o kafka.MoveOptions) ([]kafka.Record, error) {
	opts, err := c.options(
		kgo.TransactionalID(o.TransactionalID), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.From), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(500*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	s, err := kgo.NewGroupTransactSession(opts...)
	if err != nil {
		return nil, err
	}
	defer s.CloseAllowingRebalance()
	if err := s.Begin(); err != nil {
		return nil, err
	}
	var moved []kafka.Record
	for len(moved) < o.N {
		fetches := s.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return moved, err
		}
		for _, r := range fetches.Records() {
			moved = append(moved, record(r))
			if err := s.ProduceSync(ctx, &kgo.Record{Topic: o.To, Key: r.Key, Value: r.Value}).FirstErr(); err != nil {
				return moved, err
			}
		}
	}
	committed, err := s.End(ctx, kgo.TransactionEndTry(o.Commit))
	if err == nil && committed != o.Commit {
		err = fmt.Errorf("committed %v, want %v", committed, o.Commit)
	}
	return moved, err
}
