package producer

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// InitProducerId (key 22), versions 0 to 5.
//
// A request without a transactional id gets a new producer id with epoch 0. One with a
// transactional id gets the producer id of the transactional id with the next epoch, which fences
// the client that had the epoch before. If a transaction is open it is aborted, and the answer is
// CONCURRENT_TRANSACTIONS, after which the client tries again, as in Kafka.
//
// Version 3 adds the producer id and epoch that the client has (KIP-360): after an error it gets
// the next epoch, or is refused if it was fenced. Version 4 answers PRODUCER_FENCED where older
// ones answer INVALID_PRODUCER_EPOCH (KIP-588). Versions 1, 2 and 5 change nothing here.
//
// After a failure of the log the answer is COORDINATOR_NOT_AVAILABLE, but COORDINATOR_LOAD_IN_PROGRESS
// to a request without a transactional id.

// lastEpoch is the last epoch that a client gets. The one after it is only in markers: in a
// partition it fences the client that had lastEpoch.
const lastEpoch = math.MaxInt16 - 1

// InitProducerID gives a client a producer id and an epoch. When it returns without an error, a
// transactional id has the durability of [Options], and a producer id is not given out again even
// after a power cut.
func (m *Manager) InitProducerID(ctx context.Context, _ coord.Client, req *kmsg.InitProducerIDRequest) *kmsg.InitProducerIDResponse {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	var err error
	var pid int64
	var epoch int16
	if req.TransactionalID == nil {
		pid, err = m.newProducerID(ctx)
	} else {
		pid, epoch, err = m.initTransactional(ctx, req)
	}
	if err != nil {
		resp.ErrorCode = fencedSince(4, req.Version, m.code("InitProducerId", err))
		if req.TransactionalID == nil && resp.ErrorCode == kerr.CoordinatorNotAvailable.Code {
			resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code // upon the other, Java looks up the coordinator of no id
		}
		return resp
	}
	resp.ProducerID, resp.ProducerEpoch = pid, epoch
	return resp
}

// fencedSince returns code, but INVALID_PRODUCER_EPOCH for PRODUCER_FENCED if version is before
// since.
func fencedSince(since, version, code int16) int16 {
	if code == kerr.ProducerFenced.Code && version < since {
		return kerr.InvalidProducerEpoch.Code
	}
	return code
}

func (m *Manager) initTransactional(ctx context.Context, req *kmsg.InitProducerIDRequest) (int64, int16, error) {
	id := *req.TransactionalID
	if err := checkTransactionalID(id); err != nil {
		return 0, 0, err
	}
	if (req.ProducerID < 0) != (req.ProducerEpoch < 0) {
		return 0, 0, refuse(kerr.InvalidRequest, fmt.Sprintf("producer id %d with epoch %d: want both or neither", req.ProducerID, req.ProducerEpoch))
	}
	timeout := time.Duration(req.TransactionTimeoutMillis) * time.Millisecond
	if timeout <= 0 || timeout > m.o.MaxTimeout {
		return 0, 0, refuse(kerr.InvalidTransactionTimeout, fmt.Sprintf("%v: want more than 0 and at most %v", timeout, m.o.MaxTimeout))
	}
	t, err := m.createTransaction(id)
	if err != nil {
		return 0, 0, err
	}
	defer t.mu.Unlock()
	next, err := t.initialised(ctx, req)
	if err == nil && next != t.state {
		next.timeout = req.TransactionTimeoutMillis
		next.changed = m.now()
		err = t.store(ctx, next)
	}
	if err != nil {
		if t.state == nil && !t.stale {
			m.removeLocked(t) // it was made for this request
		}
		return 0, 0, err
	}
	return next.pid, next.epoch, nil
}

// checkTransactionalID returns a refusal of a transactional id that is empty or too long, or nil.
func checkTransactionalID(id string) error {
	if id == "" || len(id) > MaxTransactionalID {
		return refuse(kerr.InvalidRequest, fmt.Sprintf("the transactional id %.40q has %d bytes: want 1 to %d", id, len(id), MaxTransactionalID))
	}
	return nil
}

// initialised returns the state for the answer, which the caller commits: t.state itself, which is
// stored already, if the request is a retry. It returns a refusal after it has aborted an open
// transaction.
func (t *transaction) initialised(ctx context.Context, req *kmsg.InitProducerIDRequest) (*txnState, error) {
	s := t.state
	if s == nil {
		pid, err := t.m.newProducerID(ctx)
		return &txnState{pid: pid, lastPID: -1, lastEpoch: -1}, err
	}
	goesOn := req.ProducerID >= 0
	if goesOn {
		again, r := s.recognise(req.ProducerID, req.ProducerEpoch)
		switch {
		case r != nil:
			return nil, r
		case again:
			return s, nil
		}
	}
	if s.status == statusOngoing {
		if err := t.fence(ctx); err != nil {
			return nil, err
		}
		return nil, refuse(kerr.ConcurrentTransactions, fmt.Sprintf("the transaction of %q was open and is aborted now: try again", t.id))
	}
	next := s.ended(statusEmpty, t.m.now())
	next.implicit = false
	next.lastEpoch = -1
	if goesOn {
		next.lastEpoch = s.epoch
	}
	return next, t.m.bump(ctx, next)
}

// recognise checks the producer id and epoch that a client says it has. again means that the
// request is a retry of the one that began the current epoch; false and nil that the client has the
// current epoch and gets the next; a refusal that it was fenced.
func (s *txnState) recognise(pid int64, epoch int16) (again bool, _ *refusal) {
	switch {
	case pid == s.pid && epoch == s.epoch:
		return false, nil
	case s.status != statusOngoing && s.lastEpoch >= 0 && epoch == s.lastEpoch &&
		(pid == s.pid || pid == s.lastPID && s.lastEpoch >= lastEpoch):
		return true, nil
	}
	return false, refuse(kerr.ProducerFenced, fmt.Sprintf("producer %d with epoch %d was fenced: it is producer %d with epoch %d now", pid, epoch, s.pid, s.epoch))
}

// bump gives s, which is not in use yet, the next epoch, or a new producer id with epoch 0 after
// lastEpoch.
func (m *Manager) bump(ctx context.Context, s *txnState) error {
	if s.epoch < lastEpoch {
		s.epoch++
		return nil
	}
	pid, err := m.newProducerID(ctx)
	s.lastPID, s.pid, s.epoch = s.pid, pid, 0
	return err
}

// nextEpoch returns the epoch after epoch, for markers. It stays at its maximum, which states
// stored by older versions may have.
func nextEpoch(epoch int16) int16 { return int16(min(int32(epoch)+1, math.MaxInt16)) }

// fence aborts the open transaction and begins a new epoch, or a new producer id after lastEpoch,
// so that requests of its producer are refused.
func (t *transaction) fence(ctx context.Context) error {
	next := t.state.ended(statusAborted, t.m.now())
	next.lastEpoch = -1
	if err := t.m.bump(ctx, next); err != nil {
		return err
	}
	return t.m.finish(ctx, t, false, nextEpoch(t.state.epoch), next)
}

// store commits a new state of t, which is locked, and sets it.
func (t *transaction) store(ctx context.Context, next *txnState) error {
	b := mainstem.NewBatch()
	b.Durability = t.m.o.Durability
	t.put(b, next)
	_, err := t.m.log.Commit(ctx, b)
	t.m.resolveTransaction(t, next, err)
	return err
}
