package producer

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// EndTxn (key 26), versions 0 to 5.
//
// Commit and abort are one commit of the log each: the markers in all partitions, the offsets of
// groups, and the new state of the transactional id. So no transaction is ever half ended, and the
// states PrepareCommit and PrepareAbort do not exist.
//
// Version 2 answers PRODUCER_FENCED where older ones answer INVALID_PRODUCER_EPOCH (KIP-588). From
// version 5 on every end begins a new epoch, which the answer has (KIP-890); a retry is recognised
// by the epoch before it. Versions 1, 3 and 4 change nothing here.

// epochPerTransaction is the version of EndTxn from which every transaction has its own epoch.
const epochPerTransaction = 5

// EndTxn commits or aborts the open transaction of a transactional id. When it returns without an
// error, the end has the durability of [Options], and every reader sees all of it. A retry of the
// request gets the same answer.
func (m *Manager) EndTxn(ctx context.Context, _ coord.Client, req *kmsg.EndTxnRequest) *kmsg.EndTxnResponse {
	resp := req.ResponseKind().(*kmsg.EndTxnResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	pid, epoch, err := m.endTransaction(ctx, req)
	if err != nil {
		resp.ErrorCode = fencedSince(2, req.Version, m.code("EndTxn", err))
		return resp
	}
	if req.Version >= epochPerTransaction {
		resp.ProducerID, resp.ProducerEpoch = pid, epoch
	}
	return resp
}

func (m *Manager) endTransaction(ctx context.Context, req *kmsg.EndTxnRequest) (int64, int16, error) {
	if err := checkTransactionalID(req.TransactionalID); err != nil {
		return 0, 0, err
	}
	t, err := m.lockTransaction(req.TransactionalID)
	if err != nil {
		return 0, 0, err
	}
	defer t.mu.Unlock()
	var done bool
	var r *refusal
	bumps := req.Version >= epochPerTransaction
	if bumps {
		done, r = t.state.endsImplicit(req)
	} else {
		done, r = t.state.ends(req)
	}
	switch {
	case r != nil:
		r.message = fmt.Sprintf("transactional id %q: %s", t.id, r.message)
		return 0, 0, r
	case !done:
		if err := t.end(ctx, req.Commit, bumps); err != nil {
			return 0, 0, err
		}
	}
	return t.state.pid, t.state.epoch, nil
}

// end ends the transaction, which is locked. With bumps the marker and the state get the next
// epoch.
func (t *transaction) end(ctx context.Context, commit, bumps bool) error {
	s, to := t.state, statusAborted
	if commit {
		to = statusCommitted
	}
	next := s.ended(to, t.m.now())
	next.implicit = bumps
	marker := s.epoch
	if bumps {
		marker = nextEpoch(s.epoch)
		next.lastEpoch = s.epoch
		if err := t.m.bump(ctx, next); err != nil {
			return err
		}
	}
	return t.m.finish(ctx, t, commit, marker, next)
}

// result is the status after a transaction was committed or aborted.
func result(commit bool) status {
	if commit {
		return statusCommitted
	}
	return statusAborted
}

// wrongState is the refusal of a request that does not fit the status.
func wrongState(s *txnState, commit bool) *refusal {
	return refuse(kerr.InvalidTxnState, fmt.Sprintf("its state is %s: it cannot become %s", s.status, result(commit)))
}

// ends checks a request before version 5, whose client keeps its epoch over many transactions. It
// returns done for a retry of the last request, a refusal, or neither: the transaction has to be
// ended.
func (s *txnState) ends(req *kmsg.EndTxnRequest) (done bool, _ *refusal) {
	switch {
	case req.ProducerID != s.pid:
		return false, refuse(kerr.InvalidProducerIDMapping, fmt.Sprintf("it belongs to producer %d, not to %d", s.pid, req.ProducerID))
	case req.ProducerEpoch != s.epoch:
		return false, refuse(kerr.ProducerFenced, fmt.Sprintf("it has epoch %d, not %d", s.epoch, req.ProducerEpoch))
	case s.status == statusOngoing:
		return false, nil
	case s.status == result(req.Commit):
		return true, nil
	}
	return false, wrongState(s, req.Commit)
}

// endsImplicit is ends for version 5, with an epoch for each transaction. A client may abort
// without an open transaction, and gets a new epoch too.
func (s *txnState) endsImplicit(req *kmsg.EndTxnRequest) (done bool, _ *refusal) {
	ended := s.status == statusCommitted || s.status == statusAborted
	// A retry has the epoch before the current one, or the last epoch of the producer id before.
	again := ended && s.implicit && (req.ProducerID == s.pid && int32(req.ProducerEpoch)+1 == int32(s.epoch) ||
		req.ProducerID == s.lastPID && req.ProducerEpoch >= lastEpoch && s.epoch == 0)
	switch {
	case req.ProducerID != s.pid && !again:
		return false, refuse(kerr.InvalidProducerIDMapping, fmt.Sprintf("it belongs to producer %d, not to %d", s.pid, req.ProducerID))
	case req.ProducerEpoch != s.epoch && !again:
		return false, refuse(kerr.ProducerFenced, fmt.Sprintf("it has epoch %d, not %d", s.epoch, req.ProducerEpoch))
	case again && s.status == result(req.Commit):
		return true, nil
	case again || s.status != statusOngoing && req.Commit:
		return false, wrongState(s, req.Commit)
	}
	return false, nil
}
