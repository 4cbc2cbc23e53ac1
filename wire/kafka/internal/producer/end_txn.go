package producer

import (
	"context"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// EndTxn (key 26), versions 0 to 5.
//
// Commit and abort are one commit of the log each: markers in all partitions, the
// offsets of groups, and what the transactional id is then. So nothing is ever
// half done, and PrepareCommit and PrepareAbort do not exist.
//
// Version 2 says PRODUCER_FENCED where older ones say INVALID_PRODUCER_EPOCH
// (KIP-588). With version 5 every end begins a new epoch, which the answer brings
// (KIP-890); a repeated request is known by the epoch before. Versions 1, 3 and 4
// change nothing here.

// epochPerTransaction is the version from which every transaction has its own epoch.
const epochPerTransaction = 5

// EndTxn answers one request. When it returns without an error, the transaction
// has ended durably and for every reader at once.
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

// end ends the transaction; with bumps in an epoch of its own.
func (t *transaction) end(ctx context.Context, commit, bumps bool) error {
	s, to := t.state, statusAborted
	if commit {
		to = statusCommitted
	}
	next := s.ended(to, t.m.now())
	next.implicit = bumps
	marker := s.epoch
	if bumps {
		marker = int16(min(int32(s.epoch)+1, math.MaxInt16))
		next.lastEpoch = s.epoch
		if err := t.m.bump(ctx, next); err != nil {
			return err
		}
	}
	return t.m.finish(ctx, t, commit, marker, next)
}

// result is the status that a request asks for.
func result(commit bool) status {
	if commit {
		return statusCommitted
	}
	return statusAborted
}

func wrongState(s *txnState, commit bool) *refusal {
	return refuse(kerr.InvalidTxnState, fmt.Sprintf("its state is %s: it cannot become %s", s.status, result(commit)))
}

// ends decides about a request of a client whose epoch lasts for many
// transactions: it was done before, it is to be done, or it is refused.
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

// endsImplicit is ends for a client with an epoch for each transaction. It may
// abort what it has not begun, which gives it a new epoch all the same.
func (s *txnState) endsImplicit(req *kmsg.EndTxnRequest) (done bool, _ *refusal) {
	ended := s.status == statusCommitted || s.status == statusAborted
	// The end before began this epoch, or this producer id when epochs ran out.
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
