package producer

import (
	"context"
	"errors"
	"sync"

	"github.com/mainstemdev/mainstem"
)

// idBlockSize is the number of producer ids that one commit reserves. Those that are not given out
// before the process ends are never used.
const idBlockSize = 1000

// firstProducerID is not 0, because too many tools handle 0 as no id.
const firstProducerID = 1

// idBlock is the producer ids from next to end-1, which are reserved and not given out yet.
type idBlock struct {
	sync.Mutex // held over the commit of the next block
	next, end  int64
}

// newProducerID returns a producer id that was not given out before and will not be again, also
// after a crash: a block is written with Fsync before an id of it is used.
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

// reserveIDsLocked reserves the next block. It fails with Conflict if another process has reserved
// it.
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
		return err // if the outcome is unknown and it was written, the block is never used
	}
	m.ids.next, m.ids.end = next, next+idBlockSize
	return nil
}
