package producer

import (
	"context"
	"errors"
	"sync"

	"github.com/mainstemdev/mainstem"
)

// idBlockSize is how many producer ids one commit reserves. Those of a block that
// are not given out before the process ends are never used.
const idBlockSize = 1000

// firstProducerID leaves 0 out: too many tools take it for none.
const firstProducerID = 1

// idBlock is the producer ids that are reserved and not given out yet.
type idBlock struct {
	sync.Mutex
	next, end int64
}

// newProducerID returns a producer id that was never given out before, and never
// will be again, whatever becomes of the process or the machine.
func (m *Manager) newProducerID(ctx context.Context) (int64, error) {
	m.ids.Lock()
	defer m.ids.Unlock()
	for m.ids.next == m.ids.end {
		err := m.reserveIDsLocked(ctx)
		if err != nil && !errors.Is(err, mainstem.ErrConflict) {
			return 0, err
		}
	}
	id := m.ids.next
	m.ids.next++
	return id, nil
}

// reserveIDsLocked reserves a block. It fails with Conflict if somebody else was faster.
func (m *Manager) reserveIDsLocked(ctx context.Context) error {
	b := mainstem.NewBatch()
	b.Durability = mainstem.Fsync
	b.Ensure(Space, spacePolicy)
	next := int64(firstProducerID)
	rec, err := m.log.Get(ctx, Space, idsKey)
	switch {
	case err == nil:
		if next, err = decodeOffset(rec.Value); err != nil {
			return mainstem.Errorf(mainstem.KindCorrupt, "kafka producers", "%w", err).At(Space, rec.Key)
		}
		b.IfVersion(Space, idsKey, rec.Version)
	case errors.Is(err, mainstem.ErrNotFound):
		b.IfAbsent(Space, idsKey)
	default:
		return err
	}
	b.Put(Space, idsKey, encodeOffset(next+idBlockSize))
	if _, err := m.log.Commit(ctx, b); err != nil {
		return err // if it was written nevertheless, the block is lost
	}
	m.ids.next, m.ids.end = next, next+idBlockSize
	return nil
}
