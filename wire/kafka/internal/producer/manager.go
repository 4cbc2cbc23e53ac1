package producer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// Groups is the part of the coordinator of consumer groups that transactions use.
type Groups interface {
	// CheckTxnCommit returns 0 if a member of a group may store offsets, else the error code. For
	// consumers outside of the group protocols, and requests before version 3, generation is
	// negative and member is empty.
	CheckTxnCommit(group, member string, instance *string, generation int32) (code int16)
	// ExistsTo adds to b, which stores offsets of a group, the condition that the group is stored.
	// It commits the group first if it is not, because offsets of other groups do not expire. again
	// says that the last commit has failed with Conflict. It may be called with the locks of a
	// transaction and of tickets held.
	ExistsTo(ctx context.Context, b *mainstem.Batch, group string, again bool) error
}

// Manager manages the producers of a log and coordinates their transactions. Its methods may be
// called from several goroutines. A log must have one manager at a time. Close it before the
// catalog.
//
// Lock order: transaction.mu, tickets (see partitionState), partitionState.mu. mu, parts, pending
// and ids are locked last, and not while another of them is; of these, only ids is held over
// commits.
type Manager struct {
	catalog *topic.Catalog // the topics that batches are appended to
	log     mainstem.Log   // of the catalog
	topics  coord.Topics   // the topics that offsets are stored for
	o       Options
	groups  Groups // nil: every member may store offsets; set before the first request

	ids idBlock

	parts struct {
		sync.RWMutex
		of map[place]*partitionState // those that were used since Open
	}

	mu struct {
		sync.Mutex
		txns map[string]*transaction // by transactional id: all that exist
	}
	pending struct {
		sync.RWMutex
		of map[groupPlace]int // number of open transactions with this offset
	}

	unswept atomic.Bool // there may be records of partitions whose topics were deleted

	wakeAt atomic.Int64  // ms: when loop wakes; MinInt64 if there is no loop
	poke   chan struct{} // capacity 1: a transaction times out before wakeAt

	ctx  context.Context // ends at Close
	stop context.CancelFunc
	wg   sync.WaitGroup
	once sync.Once
}

// Open returns the manager of the producers of the topics in catalog. It reads all transactional
// ids and open transactions from the log; partitions are read when they are first used. The caller
// keeps the catalog and the log, and closes them after the manager. ctx limits only Open. It fails
// with Invalid if o is invalid, with Corrupt if a stored record is damaged, and with the errors of
// the log.
func Open(ctx context.Context, catalog *topic.Catalog, o *Options) (*Manager, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	m := &Manager{catalog: catalog, log: catalog.Log(), topics: coord.Catalog(catalog), o: o.withDefaults(), poke: make(chan struct{}, 1)}
	if m.o.Topics != nil {
		m.topics = m.o.Topics
	}
	m.mu.txns = map[string]*transaction{}
	m.parts.of = map[place]*partitionState{}
	m.pending.of = map[groupPlace]int{}
	m.unswept.Store(true)
	m.wakeAt.Store(math.MinInt64)
	m.ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx)) // Close ends it
	if err := m.loadTransactions(ctx); err != nil {
		m.stop()
		return nil, err
	}
	if m.o.Every > 0 {
		m.wg.Go(m.loop)
	}
	return m, nil
}

// loadTransactions reads all transactional ids, and the offsets of those with an open transaction.
func (m *Manager) loadTransactions(ctx context.Context) error {
	err := m.scan(ctx, transactionKind, func(rec *mainstem.Record) error {
		s, err := decodeTransaction(rec.Value)
		if err != nil {
			return err
		}
		t := &transaction{m: m, id: string(rec.Key[1:])}
		t.set(s)
		m.mu.txns[t.id] = t
		return nil
	})
	if err != nil {
		return err
	}
	return m.scan(ctx, offsetsKind, func(rec *mainstem.Record) error {
		id, _, err := splitOffsetsKey(rec.Key)
		if err != nil {
			return err
		}
		t := m.mu.txns[id]
		if t == nil {
			return fmt.Errorf("offsets of the transactional id %q, which does not exist", id)
		}
		group, of, err := t.state.openOffsets(rec)
		if of != nil {
			t.setOffsets(t.withOffsets(group, of))
		}
		return err
	})
}

// scan calls f for all records whose keys begin with kind. Errors of f become Corrupt.
func (m *Manager) scan(ctx context.Context, kind byte, f func(*mainstem.Record) error) error {
	for rec, err := range m.log.Scan(ctx, Space, mainstem.Range{Prefix: []byte{kind}}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return nil // nothing was ever stored
		}
		if err != nil {
			return err
		}
		if err := f(&rec); err != nil {
			return mainstem.Errorf(mainstem.KindCorrupt, "kafka producers", "%w", err).At(Space, rec.Key)
		}
	}
	return nil
}

// SetGroups sets the coordinator that checks members of consumer groups in TxnOffsetCommit. Call it
// before the first request. Without it every member may store offsets.
func (m *Manager) SetGroups(g Groups) { m.groups = g }

// Close ends the goroutine of the manager, and saves snapshots of partitions, so that the next
// manager reads fewer batches; its error is that of saving them. Open transactions stay open in the
// log. All requests must have ended before. Closing twice is allowed.
func (m *Manager) Close() error {
	var err error
	m.once.Do(func() {
		m.stop()
		m.wg.Wait()
		err = m.savePartitions(context.WithoutCancel(m.ctx))
	})
	return err
}

// now returns the time in milliseconds.
func (m *Manager) now() int64 { return m.o.Now().UnixMilli() }
