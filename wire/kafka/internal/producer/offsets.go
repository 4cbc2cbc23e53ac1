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

// groupPlace is what one stored offset is for.
type groupPlace struct {
	group string
	place
}

// noOffset is the offset by which a client says that a group has none, as it may with
// OffsetCommit.
const noOffset = -1

// Pending reports whether an open transaction has an offset for a group in a
// partition, so that what the group has stored there may be about to change.
func (m *Manager) Pending(group string, id topic.ID, partition int32) bool {
	m.pending.RLock()
	defer m.pending.RUnlock()
	return m.pending.of[groupPlace{group, place{id, partition}}] > 0
}

// setOffsets replaces the offsets of the open transaction.
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

// withOffsets returns the offsets of the transaction with those of one group added.
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

// commitOffsets adds to b that the offsets of the transaction are those of their
// groups. Topics that are gone are left out.
func (t *transaction) commitOffsets(ctx context.Context, b *mainstem.Batch) error {
	found := map[topic.ID]*coord.Topic{}
	for _, group := range slices.Sorted(maps.Keys(t.offsets)) {
		of := t.offsets[group]
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
	}
	return b.Err()
}

// openOffsets decodes stored offsets of a group, nil if they are of a transaction
// that has ended. Such are left where they are, for the next to be written over:
// that way the commit which ends a transaction only puts.
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
