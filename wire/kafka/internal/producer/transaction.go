package producer

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

// status is where a transactional id stands. The numbers are stored: add at the
// end only. There is nothing in between: a transaction ends in one commit.
type status byte

const (
	statusEmpty status = iota
	statusOngoing
	statusCommitted
	statusAborted
)

// statusNames are Kafka's.
var statusNames = [...]string{"Empty", "Ongoing", "CompleteCommit", "CompleteAbort"}

func (s status) String() string { return statusNames[s] }

// txnState is what is stored about a transactional id. One that is in use is not
// changed: see begun.
type txnState struct {
	status   status
	implicit bool // the client begins transactions by using them (KIP-890)

	pid       int64
	epoch     int16
	lastPID   int64 // the one before, -1 if there was none
	lastEpoch int16 // what the client that holds the epoch had before it; -1 if it had none
	timeout   int32 // ms
	serial    int64 // transactions that were begun: the number of the newest
	started   int64 // ms: the newest transaction
	changed   int64 // ms

	// Of the open transaction.
	parts  map[place]struct{}
	names  map[topic.ID]string // of the topics in parts
	groups map[string]struct{}
}

// txnOffset is an offset that becomes a group's own when the transaction is committed.
type txnOffset struct {
	topic.Offset
	name string // of the topic
}

// has reports whether the transaction includes a partition.
func (s *txnState) has(p place) bool { _, ok := s.parts[p]; return ok }

// holds reports whether a transaction is open and includes a partition.
func (s *txnState) holds(p place) bool { return s.status == statusOngoing && s.has(p) }

// holdsGroup reports whether a transaction is open and includes a group.
func (s *txnState) holdsGroup(g string) bool {
	_, ok := s.groups[g]
	return ok && s.status == statusOngoing
}

func (s *txnState) add(p place, name string) {
	if s.parts == nil {
		s.parts, s.names = map[place]struct{}{}, map[topic.ID]string{}
	}
	s.parts[p], s.names[p.id] = struct{}{}, name
}

func (s *txnState) addGroup(g string) {
	if s.groups == nil {
		s.groups = map[string]struct{}{}
	}
	s.groups[g] = struct{}{}
}

// places returns the partitions of the transaction in order.
func (s *txnState) places() []place { return slices.SortedFunc(maps.Keys(s.parts), place.compare) }

// begun returns a copy of s in which a transaction is open, since now if none was.
func (s *txnState) begun(now int64) *txnState {
	c := *s
	c.parts, c.names, c.groups = maps.Clone(s.parts), maps.Clone(s.names), maps.Clone(s.groups)
	c.changed = now
	if s.status != statusOngoing {
		c.status, c.started = statusOngoing, now
		c.serial++
		c.lastEpoch = -1
	}
	return &c
}

// ended returns a copy of s without a transaction.
func (s *txnState) ended(to status, now int64) *txnState {
	c := *s
	c.status, c.changed = to, now
	c.parts, c.names, c.groups = nil, nil, nil
	return &c
}

// deadline returns when the open transaction has to be aborted, in ms; MaxInt64 if
// none is open.
func (s *txnState) deadline() int64 {
	if s.status != statusOngoing {
		return math.MaxInt64
	}
	return s.started + int64(s.timeout)
}

// transaction is a transactional id.
type transaction struct {
	m  *Manager
	id string

	due atomic.Int64 // state.deadline, for callers that do not hold mu

	// mu is held over commits. It guards what follows.
	mu      sync.Mutex
	state   *txnState
	offsets map[string]map[place]txnOffset // by group
	stale   bool                           // the log may know better
	gone    bool                           // it is not in the manager any more
}

// set replaces what is known.
func (t *transaction) set(s *txnState) {
	t.state = s
	t.due.Store(s.deadline())
	t.m.notice(s.deadline())
}

// put adds the write of s to b.
func (t *transaction) put(b *mainstem.Batch, s *txnState) {
	b.Ensure(Space, spacePolicy)
	b.Put(Space, transactionKey(t.id), s.encode())
}

// admits returns why a batch of a transaction is not from the producer that holds
// the transactional id.
func (t *transaction) admits(h *header) *refusal {
	switch s := t.state; {
	case h.pid != s.pid:
		return refuse(kerr.InvalidProducerIDMapping, fmt.Sprintf("the transactional id %q belongs to producer %d, the batch is from %d", t.id, s.pid, h.pid))
	case h.epoch != s.epoch:
		return refuse(kerr.InvalidProducerEpoch, fmt.Sprintf("the transactional id %q has epoch %d by now, the batch %d", t.id, s.epoch, h.epoch))
	}
	return nil
}

// lockOwned is lockTransaction for a request of a producer, which is refused if another one
// holds the transactional id.
func (m *Manager) lockOwned(id string, pid int64, epoch int16) (*transaction, error) {
	t, err := m.lockTransaction(id)
	if err != nil {
		return nil, err
	}
	switch s := t.state; {
	case pid != s.pid:
		err = refuse(kerr.InvalidProducerIDMapping, fmt.Sprintf("the transactional id %q belongs to producer %d, not to %d", t.id, s.pid, pid))
	case epoch != s.epoch:
		err = refuse(kerr.ProducerFenced, fmt.Sprintf("the transactional id %q has epoch %d, not %d", t.id, s.epoch, epoch))
	default:
		return t, nil
	}
	t.mu.Unlock()
	return nil, err
}

// lockTransaction returns the transactional id called id, locked. One that does
// not exist is a refusal.
func (m *Manager) lockTransaction(id string) (*transaction, error) { return m.lock(id, false) }

// createTransaction is lockTransaction, but makes one that does not exist: a
// transaction without a state.
func (m *Manager) createTransaction(id string) (*transaction, error) { return m.lock(id, true) }

func (m *Manager) lock(id string, create bool) (*transaction, error) {
	for {
		m.mu.Lock()
		t := m.mu.txns[id]
		if t == nil && create {
			t = &transaction{m: m, id: id}
			t.due.Store(math.MaxInt64)
			m.mu.txns[id] = t
		}
		m.mu.Unlock()
		if t == nil {
			return nil, refuse(kerr.InvalidProducerIDMapping, fmt.Sprintf("there is no transactional id %q: it was never initialised, or has expired", id))
		}
		t.mu.Lock()
		err := t.refresh()
		if err == nil && !t.gone {
			return t, nil
		}
		t.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

// removeLocked takes a transactional id, whose lock is held, out of the manager.
func (m *Manager) removeLocked(t *transaction) {
	t.gone = true
	t.due.Store(math.MaxInt64)
	t.setOffsets(nil)
	m.mu.Lock()
	delete(m.mu.txns, t.id)
	m.mu.Unlock()
}

// resolveTransaction takes over that the commit that makes next the state of t
// ended with err.
func (m *Manager) resolveTransaction(t *transaction, next *txnState, err error) {
	switch {
	case err == nil:
		t.set(next)
	case errors.Is(err, mainstem.ErrUnknownOutcome):
		t.stale = true
	}
}

// refresh reads the transactional id from the log if that may know better.
func (t *transaction) refresh() error {
	if !t.stale {
		return nil
	}
	ctx, log := t.m.ctx, t.m.log
	rec, err := log.Get(ctx, Space, transactionKey(t.id))
	if errors.Is(err, mainstem.ErrNotFound) {
		t.m.removeLocked(t)
		return nil
	}
	if err != nil {
		return err
	}
	s, err := decodeTransaction(rec.Value)
	if err != nil {
		return mainstem.Errorf(mainstem.KindCorrupt, "kafka producers", "%w", err).At(Space, rec.Key)
	}
	offsets := map[string]map[place]txnOffset{}
	for rec, err := range log.Scan(ctx, Space, mainstem.Range{Prefix: offsetsPrefix(t.id)}) {
		if err != nil {
			return err
		}
		group, of, err := s.openOffsets(&rec)
		if err != nil {
			return mainstem.Errorf(mainstem.KindCorrupt, "kafka producers", "%w", err).At(Space, rec.Key)
		}
		if of != nil {
			offsets[group] = of
		}
	}
	t.setOffsets(offsets)
	t.set(s)
	t.stale = false
	return nil
}
