package producer

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// TxnOffsetCommit (key 28), versions 0 to 5.
//
// The offsets are kept in the transaction. The commit that ends it stores them for the group; they
// are ignored when it is aborted.
//
// Version 3 has generation and member, which the coordinator of the group checks (KIP-447). From
// version 5 on the group need not be added before (KIP-890). Versions 1, 2 (leader epoch) and 4
// change nothing else here. As in Kafka, a producer that was fenced gets INVALID_PRODUCER_EPOCH.

const (
	membersInTxn    = 3 // the version from which requests have generation and member
	implicitOffsets = 5 // the version from which requests add the group and begin the transaction
)

// TxnOffsetCommit stores offsets of a group in the transaction of a transactional id. When it
// returns, those without an error have the durability of [Options], as part of the transaction. If
// the whole request is refused, every partition gets the error code.
func (m *Manager) TxnOffsetCommit(ctx context.Context, _ coord.Client, req *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse {
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	resp.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(req.Topics))
	accepted := map[place]txnOffset{}
	for i := range req.Topics {
		t, out := &req.Topics[i], &resp.Topics[i]
		out.Topic, out.TopicID = t.Topic, t.TopicID
		m.examine(ctx, t, out, accepted)
	}
	code := int16(0)
	if err := m.commitTxnOffsets(ctx, req, accepted); err != nil {
		code = m.code("TxnOffsetCommit", err)
	}
	if code == kerr.ProducerFenced.Code {
		code = kerr.InvalidProducerEpoch.Code
	}
	if code != 0 {
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				resp.Topics[i].Partitions[j].ErrorCode = code
			}
		}
	}
	return resp
}

// examine checks the offsets for one topic. It adds valid ones to accepted, and writes the error
// codes of the others to out.
func (m *Manager) examine(ctx context.Context, t *kmsg.TxnOffsetCommitRequestTopic, out *kmsg.TxnOffsetCommitResponseTopic, accepted map[place]txnOffset) {
	tp, err := m.topics.Topic(ctx, t.Topic)
	out.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(t.Partitions))
	for j := range t.Partitions {
		p := &t.Partitions[j]
		to := &out.Partitions[j]
		to.Partition = p.Partition
		o := txnOffset{name: t.Topic, Offset: topic.Offset{Next: p.Offset, LeaderEpoch: p.LeaderEpoch}}
		if p.Metadata != nil {
			o.Metadata = *p.Metadata
		}
		switch {
		case errors.Is(err, mainstem.ErrNotFound), errors.Is(err, mainstem.ErrInvalid):
			to.ErrorCode = kerr.UnknownTopicOrPartition.Code
		case err != nil:
			to.ErrorCode = m.code("TxnOffsetCommit", err)
		case p.Partition < 0 || p.Partition >= tp.Partitions:
			to.ErrorCode = kerr.UnknownTopicOrPartition.Code
		case len(o.Metadata) > partition.MaxOffsetMetadata:
			to.ErrorCode = kerr.OffsetMetadataTooLarge.Code
		default:
			o.Next = max(o.Next, noOffset) // all negative offsets mean none
			accepted[place{tp.ID, p.Partition}] = o
		}
	}
}

// commitTxnOffsets checks the producer and the member, and stores accepted offsets in the
// transaction.
func (m *Manager) commitTxnOffsets(ctx context.Context, req *kmsg.TxnOffsetCommitRequest, accepted map[place]txnOffset) error {
	if err := checkOffsetsOf(req.TransactionalID, req.Group); err != nil {
		return err
	}
	t, err := m.lockOwned(req.TransactionalID, req.ProducerID, req.ProducerEpoch)
	if err != nil {
		return err
	}
	defer t.mu.Unlock()
	implicit := req.Version >= implicitOffsets
	if !implicit && !t.state.holdsGroup(req.Group) {
		return refuse(kerr.InvalidTxnState, fmt.Sprintf("group %q was not added to an open transaction of %q", req.Group, t.id))
	}
	if err := m.checkMember(req); err != nil || len(accepted) == 0 {
		return err
	}
	return t.storeOffsets(ctx, req.Group, accepted)
}

// checkMember returns a refusal if the coordinator of the group does not let the member store
// offsets, or nil.
func (m *Manager) checkMember(req *kmsg.TxnOffsetCommitRequest) error {
	if m.groups == nil {
		return nil
	}
	member, instance, generation := req.MemberID, req.InstanceID, req.Generation
	if req.Version < membersInTxn {
		member, instance, generation = "", nil, -1
	}
	code := m.groups.CheckTxnCommit(req.Group, member, instance, generation)
	if code == 0 {
		return nil
	}
	kind := kerr.TypedErrorForCode(code)
	if kind == nil {
		kind = kerr.UnknownServerError
	}
	return refuse(kind, fmt.Sprintf("group %q does not let member %q of generation %d store offsets", req.Group, member, generation))
}

// storeOffsets commits offsets of a group as part of the transaction. It begins the transaction,
// and adds the group to it, in the same commit if necessary.
func (t *transaction) storeOffsets(ctx context.Context, group string, accepted map[place]txnOffset) error {
	offsets := t.withOffsets(group, accepted)
	n := 0
	for _, of := range offsets {
		n += len(of)
	}
	if n > MaxTxnOffsets {
		return refuse(kerr.InvalidRequest, fmt.Sprintf("a transaction with %d offsets: the limit is %d", n, MaxTxnOffsets))
	}
	b := mainstem.NewBatch()
	b.Durability = t.m.o.Durability
	b.Ensure(Space, spacePolicy)
	next := t.state
	if !next.holdsGroup(group) {
		next = next.begun(t.m.now())
		if t.state.status != statusOngoing {
			next.implicit = true
		}
		if next.addGroup(group); len(next.groups) > MaxTxnGroups {
			return refuse(kerr.InvalidRequest, fmt.Sprintf("a transaction with offsets of %d groups: the limit is %d", len(next.groups), MaxTxnGroups))
		}
		t.put(b, next)
	}
	b.Put(Space, offsetsKey(t.id, group), encodeOffsets(next.serial, offsets[group]))
	_, err := t.m.log.Commit(ctx, b)
	t.m.resolveTransaction(t, next, err)
	if err == nil {
		t.setOffsets(offsets)
	}
	return err
}
