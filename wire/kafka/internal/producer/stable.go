package producer

import (
	"context"
	"slices"

	"github.com/mainstemdev/mainstem/topic"
)

// Aborted is an aborted transaction in a partition.
type Aborted struct {
	ProducerID  int64
	First, Last int64 // the offsets of its first record and of its marker
}

// Stable returns the last stable offset of a partition that ends at end, or did a moment ago: the
// least first offset of a transaction that is open or that a commit under way may begin, else end.
// It is not below the start of the partition and not above end. Batches below it are decided:
// committed, or in the list of [Manager.Aborted]. The first call for a partition reads it from the
// log; errors are those of reading.
func (m *Manager) Stable(ctx context.Context, t *topic.Topic, partition int32, end int64) (int64, error) {
	p := m.partition(t, partition)
	p.mu.Lock()
	if err := p.loadLocked(ctx, t); err != nil {
		p.mu.Unlock()
		return 0, err
	}
	p.known = max(p.known, end)
	first := p.firstOpenLocked()
	p.mu.Unlock()
	if first >= end {
		return end, nil
	}
	start, err := t.Start(ctx, partition)
	return min(max(first, start), end), err
}

// Aborted returns the aborted transactions of a partition with a first offset below to and a marker
// at offset from or above, in the order of their markers. Up to the last stable offset the list is
// complete. The caller owns the list.
func (m *Manager) Aborted(ctx context.Context, t *topic.Topic, partition int32, from, to int64) ([]Aborted, error) {
	p := m.partition(t, partition)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadLocked(ctx, t); err != nil {
		return nil, err
	}
	i, _ := slices.BinarySearchFunc(p.aborted, from, byLast)
	var out []Aborted
	for _, a := range p.aborted[i:] {
		if a.First < to {
			out = append(out, a)
		}
	}
	return out, nil
}
