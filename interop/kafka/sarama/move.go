package sarama

import (
	"context"
	"errors"

	"github.com/IBM/sarama"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Move adds the offset of every message to the transaction.
func (c client) Move(ctx context.Context, o kafka.MoveOptions) (moved []kafka.Record, err error) {
	in, err := c.Consumer(ctx, kafka.ConsumerOptions{Topic: o.From, Group: o.Group, ReadCommitted: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := c.Producer(ctx, kafka.ProducerOptions{
		Topic: o.To, Acks: kafka.AcksAll, Codec: "none", Idempotent: true, TransactionalID: o.TransactionalID,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Begin(); err != nil {
		return nil, err
	}
	for len(moved) < o.N {
		records, err := in.Poll(ctx)
		if err != nil {
			return moved, err
		}
		moved = append(moved, records...)
		if err := out.Send(ctx, records); err != nil {
			return moved, err
		}
	}
	for _, d := range in.(*member).polled {
		meta := sarama.NewConsumerGroupMetadataFromSession(d.session, o.Group, nil)
		if err := out.(*Producer).p.AddMessageToTxnWithGroupMetadata(d.message, meta, nil); err != nil {
			return moved, err
		}
	}
	if o.Commit {
		return moved, out.Commit(ctx)
	}
	return moved, out.Abort(ctx)
}
