package producer

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// groupPlace is the key of a stored offset: a group and a partition.
type groupPlace struct {
	group string
	place
}

// noOffset is the offset that removes the stored offset of a group, as in OffsetCommit.
const noOffset = -1

// Pending reports whether an open transaction has an offset for a group in a partition. If so, the
// end of the transaction may replace the stored offset. It locks no transaction.
func (m *Manager) Pending(group string, id topic.ID, partition int32) bool {
	m.pending.RLock()
	defer m.pending.RUnlock()
	return m.pending.of[groupPlace{group, place{id, partition}}] > 0
}

// setOffsets replaces the offsets of the open transaction, and updates Manager.pending. The caller
// holds t.mu.
func (t *transaction) setOffsets(offsets map[string]map[place]txnOffset) {
	if len(t.offsets) == 0 && len(offsets) == 0 {
		return
	}
	p := &t.m.pending
	p.Lock()
	defer p.Unlock()
	for group, of := range t.offsets {
		for at := range of {
			k := groupPlace{group, at}
			if p.of[k]--; p.of[k] == 0 {
				delete(p.of, k)
			}
		}
	}
	t.offsets = offsets
	for group, of := range offsets {
		for at := range of {
			p.of[groupPlace{group, at}]++
		}
	}
}

// withOffsets returns a copy of the offsets of the transaction with those of one group added.
func (t *transaction) withOffsets(group string, add map[place]txnOffset) map[string]map[place]txnOffset {
	all := maps.Clone(t.offsets)
	if all == nil {
		all = map[string]map[place]txnOffset{}
	}
	of := maps.Clone(all[group])
	if of == nil {
		of = map[place]txnOffset{}
	}
	maps.Copy(of, add)
	all[group] = of
	return all
}

// commitOffsets adds to b the offsets of the transaction as stored offsets of their groups. Those
// of topics that were deleted are left out. again says that the commit has failed with Conflict.
func (t *transaction) commitOffsets(ctx context.Context, b *mainstem.Batch, again bool) error {
	found := map[topic.ID]*coord.Topic{}
	for _, group := range slices.Sorted(maps.Keys(t.offsets)) {
		of, before := t.offsets[group], b.Len()
		for _, at := range slices.SortedFunc(maps.Keys(of), place.compare) {
			if _, looked := found[at.id]; !looked {
				tp, err := t.m.topics.ByID(ctx, at.id)
				switch {
				case err == nil:
					found[at.id] = &tp
				case errors.Is(err, mainstem.ErrNotFound):
					found[at.id] = nil
				default:
					return err
				}
			}
			switch tp := found[at.id]; {
			case tp == nil:
			case of[at].Next == noOffset:
				tp.Offsets(group).ForgetTo(b, at.num)
			default:
				tp.Offsets(group).CommitOffsetTo(b, at.num, of[at].Offset)
			}
		}
		if b.Len() > before && t.m.groups != nil {
			if err := t.m.groups.ExistsTo(ctx, b, group, again); err != nil {
				return err
			}
		}
	}
	return b.Err()
}

// openOffsets decodes the stored offsets of a group. It returns nil if they are of a transaction
// that has ended. The end of a transaction does not delete the record, so that its commit need not:
// the next transaction with offsets of the group writes over it.
func (s *txnState) openOffsets(rec *mainstem.Record) (group string, _ map[place]txnOffset, _ error) {
	_, group, err := splitOffsetsKey(rec.Key)
	if err != nil {
		return "", nil, err
	}
	serial, of, err := decodeOffsets(rec.Value)
	if err != nil || s.status != statusOngoing || serial != s.serial {
		return group, nil, err
	}
	return group, of, nil
}
