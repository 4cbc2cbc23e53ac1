package producer

import (
	"cmp"
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// ListTransactions (key 66), versions 0 to 2 (KIP-664).
//
// Version 1 filters by how long a transaction has been open (KIP-994), version 2 by a pattern of
// the whole transactional id, which is Go's dialect of RE2 as in Kafka's own consumer patterns
// (KIP-1152). coord.CompilePattern limits its size. A filter may name states of Kafka that do not
// occur here.

// neverHere are the states of Kafka that do not occur here.
var neverHere = []string{"PrepareCommit", "PrepareAbort", "PrepareEpochFence", "Dead"}

// ListTransactions lists the transactional ids that pass all filters of the request, sorted. It
// waits for requests of each id that are under way.
func (m *Manager) ListTransactions(_ context.Context, _ coord.Client, req *kmsg.ListTransactionsRequest) *kmsg.ListTransactionsResponse {
	resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
	match := func(string) bool { return true }
	if req.TransactionalIDPattern != nil && *req.TransactionalIDPattern != "" {
		pattern, err := coord.CompilePattern(*req.TransactionalIDPattern)
		if err != nil {
			resp.ErrorCode = kerr.InvalidRegularExpression.Code
			return resp
		}
		match = pattern.MatchString
	}
	for _, s := range req.StateFilters {
		if !slices.Contains(statusNames[:], s) && !slices.Contains(neverHere, s) {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, s)
		}
	}
	now := m.now()
	for _, t := range m.named(match) {
		if s := t.listed(); s != nil && matches(s, req, now) {
			out := kmsg.NewListTransactionsResponseTransactionState()
			out.TransactionalID, out.ProducerID, out.TransactionState = t.id, s.pid, s.status.String()
			resp.TransactionStates = append(resp.TransactionStates, out)
		}
	}
	slices.SortFunc(resp.TransactionStates, func(a, b kmsg.ListTransactionsResponseTransactionState) int {
		return cmp.Compare(a.TransactionalID, b.TransactionalID)
	})
	return resp
}

// named returns the transactional ids that match, sorted by id. A pattern of a client may take long:
// match is called without Manager.mu.
func (m *Manager) named(match func(id string) bool) []*transaction {
	all := m.choose(func(*transaction) bool { return true })
	return slices.DeleteFunc(all, func(t *transaction) bool { return !match(t.id) })
}

// listed returns the state of a transactional id, nil if it does not exist any more. After a commit
// with an unknown outcome it is the state before.
func (t *transaction) listed() *txnState {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil
	}
	return t.state
}

// matches reports whether s passes all filters of a request except the pattern.
func matches(s *txnState, req *kmsg.ListTransactionsRequest, now int64) bool {
	return (len(req.StateFilters) == 0 || slices.Contains(req.StateFilters, s.status.String())) &&
		(len(req.ProducerIDFilters) == 0 || slices.Contains(req.ProducerIDFilters, s.pid)) &&
		(req.DurationFilterMillis < 0 || s.status == statusOngoing && now-s.started > req.DurationFilterMillis)
}
