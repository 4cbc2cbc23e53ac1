package producer

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// finish ends the open transaction of t, which is locked, in one commit: a marker with the given
// epoch in every partition, the offsets of groups if it is committed, and next as the state of the
// transactional id. After an unknown outcome t is stale. After any other error nothing was written,
// and the transaction is still open.
func (m *Manager) finish(ctx context.Context, t *transaction, commit bool, epoch int16, next *txnState) error {
	// If a topic is deleted meanwhile, the next attempt ends the rest of the transaction. If a group
	// is, it stores the group again.
	const attempts = 5
	for n := 1; ; n++ {
		f := ending{m: m, t: t, commit: commit, epoch: epoch, next: next, again: n > 1}
		err := f.try(ctx)
		again := errors.Is(err, mainstem.ErrNotFound) || errors.Is(err, mainstem.ErrConflict)
		if err == nil || !again || n == attempts {
			return err
		}
	}
}

// ending is one attempt to end a transaction.
type ending struct {
	m      *Manager
	t      *transaction // locked
	commit bool         // else it is aborted
	epoch  int16        // of the markers
	next   *txnState    // the state afterwards
	again  bool         // the attempt before has failed because something had changed meanwhile
	parts  []endingPart // one for each marker
}

// endingPart is the marker in one partition.
type endingPart struct {
	ticket *ticket
	ride   *snapshot // the head or snapshot in the commit; nil: none
	slot   partition.Slot
}

// try makes the batch and commits it. It holds tickets of all partitions during the commit, and
// gives them back whatever the outcome.
func (f *ending) try(ctx context.Context) error {
	b := mainstem.NewBatch()
	b.Durability = f.m.o.Durability
	err := f.mark(ctx, b)
	if err == nil && f.commit {
		err = f.t.commitOffsets(ctx, b, f.again)
	}
	var r mainstem.Receipt
	if err == nil {
		f.t.put(b, f.next)
		r, err = f.m.log.Commit(ctx, b)
	}
	f.leave(r, err)
	f.m.resolveTransaction(f.t, f.next, err)
	if err == nil {
		f.t.setOffsets(nil)
	}
	return err
}

// mark adds the markers to b. It enters the partitions in the order of their places, so that two
// requests do not wait for each other. Partitions whose topics were deleted need no marker.
func (f *ending) mark(ctx context.Context, b *mainstem.Batch) error {
	marker := recordbatch.Marker{ProducerID: f.t.state.pid, ProducerEpoch: f.epoch, Commit: f.commit, Timestamp: f.m.now()}
	for _, at := range f.t.state.places() {
		err := f.markOne(ctx, b, at, marker)
		if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
	}
	return nil
}

func (f *ending) markOne(ctx context.Context, b *mainstem.Batch, at place, marker recordbatch.Marker) error {
	t, err := f.m.topicAt(ctx, at, f.t.state.names[at.id])
	if err != nil {
		return err
	}
	p, err := t.Partition(at.num)
	if err != nil {
		return err
	}
	k := new(ticket)
	if err := f.m.partition(t, at.num).enter(ctx, k, t, marker.ProducerID); err != nil {
		return err
	}
	slot := p.AppendMarkerTo(b, marker)
	f.parts = append(f.parts, endingPart{ticket: k, ride: k.ride(b), slot: slot})
	return nil
}

// leave gives the tickets back after the commit has ended with r and err.
func (f *ending) leave(r mainstem.Receipt, err error) {
	unknown, now := errors.Is(err, mainstem.ErrUnknownOutcome), f.m.now()
	for _, part := range f.parts {
		k := part.ticket
		k.leave(func() {
			if part.ride != nil {
				part.ride.endLocked(err == nil)
			}
			switch {
			case unknown:
				k.p.dropLocked()
			case err == nil:
				k.ended(f.epoch, f.commit, part.slot.In(r).Base, now)
			}
		})
	}
}

// topicAt returns the topic of a partition, which was called name when the transaction included it.
// It returns NotFound if that topic was deleted, even if there is another of the name.
func (m *Manager) topicAt(ctx context.Context, at place, name string) (*topic.Topic, error) {
	t, err := m.catalog.Topic(ctx, name)
	if err == nil && t.ID() != at.id {
		err = mainstem.Refusef(mainstem.KindNotFound, "end transaction", "the topic was deleted, and another has its name").At(topic.Space(name), nil)
	}
	return t, err
}
