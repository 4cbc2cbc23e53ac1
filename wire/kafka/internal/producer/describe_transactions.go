package producer

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// DescribeTransactions (key 65), version 0 (KIP-664).
//
// Kafka also lists partitions of its internal topic of offsets, which does not exist here.

// DescribeTransactions returns the state of transactional ids and the partitions of their open
// transactions. One that does not exist gets TRANSACTIONAL_ID_NOT_FOUND.
func (m *Manager) DescribeTransactions(_ context.Context, _ coord.Client, req *kmsg.DescribeTransactionsRequest) *kmsg.DescribeTransactionsResponse {
	resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	for _, id := range req.TransactionalIDs {
		resp.TransactionStates = append(resp.TransactionStates, m.describeTransaction(id))
	}
	return resp
}

func (m *Manager) describeTransaction(id string) kmsg.DescribeTransactionsResponseTransactionState {
	out := kmsg.NewDescribeTransactionsResponseTransactionState()
	out.TransactionalID, out.ProducerID, out.ProducerEpoch, out.StartTimestamp = id, -1, -1, -1
	t, err := m.lockTransaction(id)
	if err != nil {
		out.ErrorCode = m.code("DescribeTransactions", err)
		if out.ErrorCode == kerr.InvalidProducerIDMapping.Code {
			out.ErrorCode = kerr.TransactionalIDNotFound.Code
		}
		return out
	}
	defer t.mu.Unlock()
	s := t.state
	out.State, out.TimeoutMillis = s.status.String(), s.timeout
	out.ProducerID, out.ProducerEpoch = s.pid, s.epoch
	if s.status == statusOngoing {
		out.StartTimestamp = s.started
	}
	for _, p := range s.places() {
		name := s.names[p.id]
		if n := len(out.Topics); n == 0 || out.Topics[n-1].Topic != name {
			to := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
			to.Topic = name
			out.Topics = append(out.Topics, to)
		}
		to := &out.Topics[len(out.Topics)-1]
		to.Partitions = append(to.Partitions, p.num)
	}
	return out
}
