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

// status is the state of a transactional id. The numbers are stored: add at the end only.
//
//	none ──init──▶ Empty ──begin──▶ Ongoing ──commit──────────▶ CompleteCommit
//	  ▲            ▲ ▲              ▲ │                             │
//	  │            │ │              │ └──────abort, fence───────▶ CompleteAbort
//	  │            │ │              │                               │
//	  │            │ │              └────────────begin──────────────┤
//	  │            │ └───────────────────────────init───────────────┤
//	  └────────────┴───────────────────────────expire───────────────┘
//
//	init    InitProducerId. The epoch rises, except for a new transactional id.
//	begin   AddPartitionsToTxn, AddOffsetsToTxn, Produce from version 12 on, TxnOffsetCommit from
//	        version 5 on. The epoch stays.
//	commit  EndTxn. The epoch stays; from version 5 on (KIP-890) it rises.
//	abort   EndTxn, as for commit. From version 5 on also without an open transaction: the state
//	        is then CompleteAbort, and the epoch rises.
//	fence   InitProducerId while a transaction is open, or its timeout. The epoch rises.
//	expire  Options.TransactionalExpiry has passed since the last change.
//
// After lastEpoch the epoch does not rise: the id gets a new producer id with epoch 0 (bump).
// Kafka's states PrepareCommit and PrepareAbort do not exist, because every transition is one
// commit.
//
// Invariant: only Ongoing has parts, names and groups, and offsets in transaction.offsets.
type status byte

const (
	statusEmpty     status = iota // no transaction since the last InitProducerId
	statusOngoing                 // a transaction is open
	statusCommitted               // the last transaction was committed
	statusAborted                 // the last transaction was aborted
)

// statusNames are Kafka's names.
var statusNames = [...]string{"Empty", "Ongoing", "CompleteCommit", "CompleteAbort"}

func (s status) String() string { return statusNames[s] }

// txnState is the stored state of a transactional id. Once it is in transaction.state it is
// immutable: begun and ended return copies, and a copy takes its place after it was committed.
type txnState struct {
	status   status
	implicit bool // the client begins transactions without AddPartitionsToTxn (KIP-890)

	pid       int64 // the producer id
	epoch     int16 // the current one; requests with another are refused
	lastPID   int64 // the producer id before pid; -1: none
	lastEpoch int16 // the epoch that the same client had before, to recognise retries; -1: none
	timeout   int32 // of a transaction, in ms
	serial    int64 // number of transactions begun; the newest has this number
	started   int64 // when the newest transaction began, in ms since 1970
	changed   int64 // when the state last changed, in ms since 1970

	// Of the open transaction.
	parts  map[place]struct{}  // its partitions
	names  map[topic.ID]string // the names of the topics in parts
	groups map[string]struct{} // the groups that it may have offsets of
}

// txnOffset is an offset in a transaction. The commit of the transaction stores it for the group.
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

// add adds a partition of the topic called name; s is not in use yet.
func (s *txnState) add(p place, name string) {
	if s.parts == nil {
		s.parts, s.names = map[place]struct{}{}, map[topic.ID]string{}
	}
	s.parts[p], s.names[p.id] = struct{}{}, name
}

// addGroup adds a group; s is not in use yet.
func (s *txnState) addGroup(g string) {
	if s.groups == nil {
		s.groups = map[string]struct{}{}
	}
	s.groups[g] = struct{}{}
}

// places returns the partitions of the transaction in order.
func (s *txnState) places() []place { return slices.SortedFunc(maps.Keys(s.parts), place.compare) }

// begun returns a copy of s with an open transaction: that of s, or a new one that begins now (in
// ms).
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

// ended returns a copy of s without a transaction, in the status to since now (in ms).
func (s *txnState) ended(to status, now int64) *txnState {
	c := *s
	c.status, c.changed = to, now
	c.parts, c.names, c.groups = nil, nil, nil
	return &c
}

// deadline returns when the open transaction times out, in ms since 1970; MaxInt64 if none is open.
func (s *txnState) deadline() int64 {
	if s.status != statusOngoing {
		return math.MaxInt64
	}
	return s.started + int64(s.timeout)
}

// transaction is a transactional id in memory. A request locks it with lockTransaction, commits a
// new state, and sets it after the commit (resolveTransaction). After a commit with an unknown
// outcome it is stale: the next request that locks it reads it from the log first.
//
// Invariant: unless stale, state and offsets are those in the log.
type transaction struct {
	m  *Manager
	id string

	due atomic.Int64 // state.deadline(), for callers that do not hold mu

	// mu is held over commits, so that requests of a transactional id follow one another. It guards
	// the fields below.
	mu      sync.Mutex
	state   *txnState                      // nil until the request that creates it has committed it, or if stale or gone
	offsets map[string]map[place]txnOffset // of the open transaction, by group; its maps are immutable
	stale   bool                           // the outcome of a commit is unknown
	gone    bool                           // it is not in Manager.mu.txns any more
}

// set replaces the state, and wakes the loop of the manager if it now times out earlier.
func (t *transaction) set(s *txnState) {
	t.state = s
	t.due.Store(s.deadline())
	t.m.notice(s.deadline())
}

// put adds to b that s is the state of t.
func (t *transaction) put(b *mainstem.Batch, s *txnState) {
	b.Ensure(Space, spacePolicy)
	b.Put(Space, transactionKey(t.id), s.encode())
}

// admits returns nil if a transactional batch is from the current producer id and epoch, else the
// refusal.
func (t *transaction) admits(h *header) *refusal {
	switch s := t.state; {
	case h.pid != s.pid:
		return refuse(kerr.InvalidProducerIDMapping, fmt.Sprintf("the transactional id %q belongs to producer %d, the batch is from %d", t.id, s.pid, h.pid))
	case h.epoch != s.epoch:
		return refuse(kerr.InvalidProducerEpoch, fmt.Sprintf("the transactional id %q has epoch %d by now, the batch %d", t.id, s.epoch, h.epoch))
	}
	return nil
}

// lockOwned is lockTransaction for a request with a producer id and epoch, which is refused unless
// they are the current ones.
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

// lockTransaction returns the transactional id called id, locked and not stale, with a state. It
// returns a refusal if it does not exist. The caller unlocks mu.
func (m *Manager) lockTransaction(id string) (*transaction, error) { return m.lock(id, false) }

// createTransaction is lockTransaction that creates one that does not exist, with a nil state. The
// caller commits a state or calls removeLocked.
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
			return nil, noTransaction(id)
		}
		t.mu.Lock()
		err := t.refresh()
		if err == nil && !t.gone && t.state == nil && !create {
			err = noTransaction(id) // the request that creates it has not locked it yet
		}
		if err == nil && !t.gone {
			return t, nil
		}
		t.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

func noTransaction(id string) *refusal {
	return refuse(kerr.InvalidProducerIDMapping, fmt.Sprintf("there is no transactional id %q: it was never initialised, or has expired", id))
}

// removeLocked removes a transactional id from the manager. The caller holds t.mu.
func (m *Manager) removeLocked(t *transaction) {
	t.gone = true
	t.due.Store(math.MaxInt64)
	t.setOffsets(nil)
	m.mu.Lock()
	delete(m.mu.txns, t.id)
	m.mu.Unlock()
}

// resolveTransaction updates t, which is locked, after a commit of the state next that ended with
// err: the state is next, unchanged, or unknown (stale).
func (m *Manager) resolveTransaction(t *transaction, next *txnState, err error) {
	switch {
	case err == nil:
		t.set(next)
	case errors.Is(err, mainstem.ErrUnknownOutcome):
		t.stale = true
	}
}

// refresh reads the transactional id from the log if it is stale. If it does not exist there, it is
// removed. The caller holds t.mu.
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
