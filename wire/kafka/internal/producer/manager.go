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

// Groups is what transactions ask of the coordinator of consumer groups.
type Groups interface {
	// CheckTxnCommit returns 0 if a member of a group may store offsets, else the
	// error code that says why not. generation is negative, and member empty, for
	// consumers that choose their partitions themselves.
	CheckTxnCommit(group, member string, instance *string, generation int32) (code int16)
}

// Manager keeps the producers of a log and coordinates their transactions. Its
// methods may be called from many goroutines. A log must have one manager at a
// time.
type Manager struct {
	catalog *topic.Catalog
	log     mainstem.Log
	topics  coord.Topics
	o       Options
	groups  Groups

	ids idBlock

	parts struct {
		sync.RWMutex
		of map[place]*partitionState
	}

	mu struct {
		sync.Mutex
		txns map[string]*transaction
	}
	pending struct {
		sync.RWMutex
		of map[groupPlace]int // open transactions with an offset there
	}

	unswept atomic.Bool // something may be stored about topics that are gone

	wakeAt atomic.Int64  // ms: when the loop looks again; MinInt64 if it need not be told
	poke   chan struct{} // capacity 1: a transaction is due earlier

	ctx  context.Context // ends at Close
	stop context.CancelFunc
	wg   sync.WaitGroup
	once sync.Once
}

// Open returns the manager of the producers of the topics in catalog, with the
// transactions that were open when the process before ended. Catalog and log stay
// the caller's: close the manager first.
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

// loadTransactions reads the transactional ids and their offsets.
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

// scan calls f for the records of one kind.
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

// SetGroups sets where the manager looks up consumer groups. Call it before
// the first request; without it every member may store offsets.
func (m *Manager) SetGroups(g Groups) { m.groups = g }

// Close ends what the manager does in the background, and saves what it knows so
// that the next one need not find it out again. Open transactions stay open in the
// log. Requests have to have ended before. Closing twice is allowed.
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
