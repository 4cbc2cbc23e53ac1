package producer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/topic"
)

// minPause is the least pause of loop after a failure.
const minPause = 100 * time.Millisecond

// loop is the goroutine of the manager. It aborts transactions when they time out, and does the
// rest of upkeep every Options.Every, until Close.
func (m *Manager) loop() {
	next := m.o.Now().Add(m.o.Every)
	for failed := false; ; {
		d := m.untilDue(next)
		if failed {
			d = max(d, minPause)
		}
		timer := time.NewTimer(d)
		select {
		case <-m.ctx.Done():
			timer.Stop()
			return
		case <-m.poke:
			timer.Stop()
			continue
		case <-timer.C:
		}
		err := m.abortOverdue(m.ctx)
		if !m.o.Now().Before(next) {
			err = errors.Join(err, m.tidy(m.ctx))
			next = m.o.Now().Add(m.o.Every)
		}
		if failed = err != nil; failed && m.ctx.Err() == nil {
			m.o.Logger.Warn("upkeep of producers", "error", err)
		}
	}
}

// untilDue returns the time until next, or until a transaction times out, whichever is earlier, and
// sets wakeAt. A transaction that begins later and times out earlier wakes the loop (notice).
func (m *Manager) untilDue(next time.Time) time.Duration {
	m.wakeAt.Store(math.MaxInt64) // a transaction that begins during the search wakes the loop
	at := next.UnixMilli()
	m.mu.Lock()
	for _, t := range m.mu.txns {
		at = min(at, t.due.Load())
	}
	m.mu.Unlock()
	m.wakeAt.Store(at)
	return max(0, time.UnixMilli(at).Sub(m.o.Now()))
}

// notice wakes the loop if due, the time-out of a transaction in ms, is before wakeAt.
func (m *Manager) notice(due int64) {
	if due < m.wakeAt.Load() {
		wake.Signal(m.poke)
	}
}

// Upkeep runs the background work of the manager now. It
//
//   - aborts transactions that have timed out, and fences their producers,
//   - removes transactional ids and producers that have expired, see [Options],
//   - saves snapshots of partitions,
//   - removes the records of partitions whose topics were deleted.
//
// It continues after an error, and returns all of them joined.
func (m *Manager) Upkeep(ctx context.Context) error {
	return errors.Join(m.abortOverdue(ctx), m.tidy(ctx))
}

// tidy is Upkeep without the time-outs.
func (m *Manager) tidy(ctx context.Context) error {
	return errors.Join(m.expireTransactions(ctx), m.savePartitions(ctx), m.sweep(ctx))
}

// choose returns the transactional ids for which f returns true, sorted by id. f is called with
// Manager.mu locked, and must not lock a transaction.
func (m *Manager) choose(f func(*transaction) bool) []*transaction {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*transaction
	for _, t := range m.mu.txns {
		if f(t) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *transaction) int { return cmp.Compare(a.id, b.id) })
	return out
}

// abortOverdue aborts transactions that have timed out, and fences their producers.
func (m *Manager) abortOverdue(ctx context.Context) error {
	now := m.now()
	var errs []error
	for _, t := range m.choose(func(t *transaction) bool { return t.due.Load() <= now }) {
		if err := t.abortIfOverdue(ctx, now); err != nil {
			errs = append(errs, fmt.Errorf("aborting the transaction of %q: %w", t.id, err))
		}
	}
	return errors.Join(errs...)
}

func (t *transaction) abortIfOverdue(ctx context.Context, now int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refresh(); err != nil || t.gone || t.state.deadline() > now {
		return err
	}
	return t.fence(ctx)
}

// expireTransactions removes the transactional ids that have expired.
func (m *Manager) expireTransactions(ctx context.Context) error {
	oldest := m.o.Now().Add(-m.o.TransactionalExpiry).UnixMilli()
	var errs []error
	for _, t := range m.choose(func(t *transaction) bool { return t.due.Load() == math.MaxInt64 }) {
		if err := t.expire(ctx, oldest); err != nil {
			errs = append(errs, fmt.Errorf("forgetting the transactional id %q: %w", t.id, err))
		}
	}
	return errors.Join(errs...)
}

// expire removes the transactional id, with its offsets, if it has no open transaction and has not
// changed since oldest (in ms).
func (t *transaction) expire(ctx context.Context, oldest int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refresh(); err != nil {
		return err
	}
	if t.gone || t.state == nil || t.state.status == statusOngoing || t.state.changed >= oldest {
		return nil
	}
	b := mainstem.NewBatch()
	b.Durability = t.m.o.Durability
	b.Delete(Space, transactionKey(t.id))
	for rec, err := range t.m.log.Scan(ctx, Space, mainstem.Range{Prefix: offsetsPrefix(t.id), KeysOnly: true}) {
		if err != nil {
			return err
		}
		b.Delete(Space, slices.Clone(rec.Key))
	}
	_, err := t.m.log.Commit(ctx, b)
	switch {
	case err == nil:
		t.m.removeLocked(t)
	case errors.Is(err, mainstem.ErrUnknownOutcome):
		t.stale = true
	}
	return err
}

// savePartitions calls save for every partition in memory, and drops those whose topics were
// deleted.
func (m *Manager) savePartitions(ctx context.Context) error {
	oldest := m.o.Now().Add(-m.o.ProducerExpiry).UnixMilli()
	var errs []error
	m.parts.RLock()
	parts := slices.Collect(maps.Values(m.parts.of))
	m.parts.RUnlock()
	for _, p := range parts {
		err := p.save(ctx, oldest)
		if errors.Is(err, mainstem.ErrNotFound) { // the topic was deleted
			m.unswept.Store(true)
			m.parts.Lock()
			delete(m.parts.of, p.place)
			m.parts.Unlock()
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("saving the producers of a partition: %w", err))
		}
	}
	return errors.Join(errs...)
}

// sweepStep is the most records that one commit of sweep removes.
const sweepStep = 1000

// sweep removes the records of partitions whose topics were deleted. It does so if savePartitions
// has found one since the last sweep, after a failure, and once after Open.
func (m *Manager) sweep(ctx context.Context) error {
	if !m.unswept.Swap(false) {
		return nil
	}
	err := m.sweepAll(ctx)
	if err != nil {
		m.unswept.Store(true)
	}
	return err
}

func (m *Manager) sweepAll(ctx context.Context) error {
	stored, err := m.storedTopics(ctx)
	if err != nil || len(stored) == 0 {
		return err
	}
	// The topics are listed after storedTopics: one that was created meanwhile is not in stored,
	// and topic IDs are not used again.
	alive := map[topic.ID]bool{}
	for t, err := range m.catalog.All(ctx) {
		if err != nil {
			return err
		}
		alive[t.ID()] = true
	}
	for _, id := range stored {
		if !alive[id] {
			if err := m.dropTopic(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// storedTopics returns the IDs of the topics with stored partitions. It reads one key of each.
func (m *Manager) storedTopics(ctx context.Context) ([]topic.ID, error) {
	var ids []topic.ID
	for from := []byte{partitionKind}; from != nil; {
		r := mainstem.Range{Prefix: []byte{partitionKind}, Start: from, KeysOnly: true, Limit: 1}
		from = nil
		for rec, err := range m.log.Scan(ctx, Space, r) {
			if errors.Is(err, mainstem.ErrNotFound) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			if len(rec.Key) < headKeySize {
				return nil, mainstem.Errorf(mainstem.KindCorrupt, "kafka producers", "the key is too short for a partition").At(Space, rec.Key)
			}
			id := topic.ID(rec.Key[1:17])
			ids = append(ids, id)
			from = append(slices.Clone(rec.Key[:17]), 0xff) // partitions are not negative
		}
	}
	return ids, nil
}

// dropTopic removes all records of the partitions of a topic.
func (m *Manager) dropTopic(ctx context.Context, id topic.ID) error {
	prefix := headKey(place{id: id})[:17]
	for {
		b := mainstem.NewBatch()
		b.Durability = mainstem.OS
		for rec, err := range m.log.Scan(ctx, Space, mainstem.Range{Prefix: prefix, KeysOnly: true, Limit: sweepStep}) {
			if err != nil {
				return err
			}
			b.Delete(Space, slices.Clone(rec.Key))
		}
		if b.Len() == 0 {
			return nil
		}
		if _, err := m.log.Commit(ctx, b); err != nil {
			return err
		}
	}
}
