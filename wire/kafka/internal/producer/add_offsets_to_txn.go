package producer

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// AddOffsetsToTxn (key 25), versions 0 to 4.
//
// It begins the transaction if none is open, and adds the group to it, so that TxnOffsetCommit may
// store offsets of the group.
//
// Version 2 answers PRODUCER_FENCED where older ones answer INVALID_PRODUCER_EPOCH (KIP-588).
// Versions 1, 3 and 4 change nothing here.

// AddOffsetsToTxn adds a group to the transaction of a transactional id. When it returns without an
// error, this has the durability of [Options].
func (m *Manager) AddOffsetsToTxn(ctx context.Context, _ coord.Client, req *kmsg.AddOffsetsToTxnRequest) *kmsg.AddOffsetsToTxnResponse {
	resp := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	if err := m.addOffsets(ctx, req); err != nil {
		resp.ErrorCode = fencedSince(2, req.Version, m.code("AddOffsetsToTxn", err))
	}
	return resp
}

func (m *Manager) addOffsets(ctx context.Context, req *kmsg.AddOffsetsToTxnRequest) error {
	if err := checkOffsetsOf(req.TransactionalID, req.Group); err != nil {
		return err
	}
	t, err := m.lockOwned(req.TransactionalID, req.ProducerID, req.ProducerEpoch)
	if err != nil {
		return err
	}
	defer t.mu.Unlock()
	if t.state.holdsGroup(req.Group) {
		return nil
	}
	next := t.state.begun(m.now())
	if t.state.status != statusOngoing {
		next.implicit = false
	}
	if next.addGroup(req.Group); len(next.groups) > MaxTxnGroups {
		return refuse(kerr.InvalidRequest, fmt.Sprintf("a transaction with offsets of %d groups: the limit is %d", len(next.groups), MaxTxnGroups))
	}
	return t.store(ctx, next)
}

// checkOffsetsOf returns a refusal of an invalid transactional id or group, or nil.
func checkOffsetsOf(id, group string) error {
	if err := checkTransactionalID(id); err != nil {
		return err
	}
	if group == "" || len(group) > partition.MaxGroup {
		return refuse(kerr.InvalidGroupID, fmt.Sprintf("the group %.40q has %d bytes: want 1 to %d", group, len(group), partition.MaxGroup))
	}
	return nil
}
