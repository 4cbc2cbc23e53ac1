package producer

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// AddPartitionsToTxn (key 24), versions 0 to 5.
//
// It begins the transaction if none is open. All partitions of a transaction are added or none: if
// one does not exist, the others get OPERATION_NOT_ATTEMPTED.
//
// Version 2 answers PRODUCER_FENCED where older ones answer INVALID_PRODUCER_EPOCH (KIP-588).
// Versions 4 and 5 have several transactional ids, and may only verify that partitions are in a
// transaction (KIP-890). In Kafka brokers send them to each other; here they are served to any
// client. Versions 1 and 3 change nothing here.

// addition is the partitions that a request adds to one transaction.
type addition struct {
	id     string // the transactional id
	pid    int64
	epoch  int16
	verify bool // verify that they are in the transaction, and add none
	topics []kmsg.AddPartitionsToTxnRequestTopic
}

// severalTransactions is the version from which requests have several transactions.
const severalTransactions = 4

// AddPartitionsToTxn adds partitions to the transactions of transactional ids. When it returns,
// those without an error have the durability of [Options].
func (m *Manager) AddPartitionsToTxn(ctx context.Context, _ coord.Client, req *kmsg.AddPartitionsToTxnRequest) *kmsg.AddPartitionsToTxnResponse {
	resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	if req.Version < severalTransactions {
		a := addition{id: req.TransactionalID, pid: req.ProducerID, epoch: req.ProducerEpoch, topics: req.Topics}
		codes := m.addPartitions(ctx, &a)
		for _, t := range req.Topics {
			out := kmsg.NewAddPartitionsToTxnResponseTopic()
			out.Topic = t.Topic
			for _, num := range t.Partitions {
				p := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				p.Partition, p.ErrorCode = num, fencedSince(2, req.Version, codes(t.Topic, num))
				out.Partitions = append(out.Partitions, p)
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp
	}
	for i := range req.Transactions {
		resp.Transactions = append(resp.Transactions, m.addTransaction(ctx, &req.Transactions[i]))
	}
	return resp
}

// addTransaction handles one transaction of a request of version 4 or 5.
func (m *Manager) addTransaction(ctx context.Context, req *kmsg.AddPartitionsToTxnRequestTransaction) kmsg.AddPartitionsToTxnResponseTransaction {
	out := kmsg.NewAddPartitionsToTxnResponseTransaction()
	out.TransactionalID = req.TransactionalID
	a := addition{id: req.TransactionalID, pid: req.ProducerID, epoch: req.ProducerEpoch, verify: req.VerifyOnly}
	for _, t := range req.Topics {
		a.topics = append(a.topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	codes := m.addPartitions(ctx, &a)
	for _, t := range req.Topics {
		to := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
		to.Topic = t.Topic
		for _, num := range t.Partitions {
			p := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
			p.Partition, p.ErrorCode = num, codes(t.Topic, num)
			to.Partitions = append(to.Partitions, p)
		}
		out.Topics = append(out.Topics, to)
	}
	return out
}

// namedPlace is a partition by the name of its topic, as in a request.
type namedPlace struct {
	name string
	num  int32
}

// addPartitions handles one addition. It returns a function that returns the error code of each
// partition.
func (m *Manager) addPartitions(ctx context.Context, a *addition) func(name string, num int32) int16 {
	all := func(err error) func(string, int32) int16 {
		code := m.code("AddPartitionsToTxn", err)
		return func(string, int32) int16 { return code }
	}
	if err := checkTransactionalID(a.id); err != nil {
		return all(err)
	}
	wanted, bad, err := m.find(ctx, a.topics)
	if err != nil {
		return all(err)
	}
	if len(bad) > 0 {
		return func(name string, num int32) int16 {
			if code, ok := bad[namedPlace{name, num}]; ok {
				return code
			}
			return kerr.OperationNotAttempted.Code
		}
	}
	t, err := m.lockOwned(a.id, a.pid, a.epoch)
	if err != nil {
		return all(err)
	}
	defer t.mu.Unlock()
	if a.verify {
		return t.verify(wanted)
	}
	if err := t.addPlaces(ctx, wanted); err != nil {
		return all(err)
	}
	return func(string, int32) int16 { return 0 }
}

// found is the partitions of a request that exist.
type found map[namedPlace]place

// find looks up partitions. bad has the error codes of those that do not exist.
func (m *Manager) find(ctx context.Context, topics []kmsg.AddPartitionsToTxnRequestTopic) (wanted found, bad map[namedPlace]int16, _ error) {
	wanted, bad = found{}, map[namedPlace]int16{}
	for _, t := range topics {
		tp, err := m.catalog.Topic(ctx, t.Topic)
		code := int16(0)
		switch {
		case errors.Is(err, mainstem.ErrNotFound):
			code = kerr.UnknownTopicOrPartition.Code
		case errors.Is(err, mainstem.ErrInvalid):
			code = kerr.InvalidTopicException.Code
		case err != nil:
			return nil, nil, err
		}
		for _, num := range t.Partitions {
			at := namedPlace{t.Topic, num}
			switch {
			case code != 0:
				bad[at] = code
			case num < 0 || num >= tp.Partitions():
				bad[at] = kerr.UnknownTopicOrPartition.Code
			default:
				wanted[at] = place{tp.ID(), num}
			}
		}
	}
	return wanted, bad, nil
}

// verify returns a function with code 0 for partitions in the open transaction, and
// INVALID_TXN_STATE for others.
func (t *transaction) verify(wanted found) func(string, int32) int16 {
	s := t.state
	held := map[namedPlace]bool{}
	for at, p := range wanted {
		held[at] = s.holds(p)
	}
	return func(name string, num int32) int16 {
		if held[namedPlace{name, num}] {
			return 0
		}
		return kerr.InvalidTxnState.Code
	}
}

// addPlaces adds partitions to the transaction, which begins if none is open, and commits its
// state. If it has all of them already, nothing is written.
func (t *transaction) addPlaces(ctx context.Context, wanted found) error {
	next := t.state.begun(t.m.now())
	if t.state.status != statusOngoing {
		next.implicit = false
	}
	for at, p := range wanted {
		next.add(p, at.name)
	}
	if t.state.status == statusOngoing && maps.Equal(next.parts, t.state.parts) {
		return nil
	}
	if len(next.parts) > MaxPartitions {
		return refuse(kerr.InvalidRequest, fmt.Sprintf("a transaction of %d partitions: the limit is %d", len(next.parts), MaxPartitions))
	}
	return t.store(ctx, next)
}
