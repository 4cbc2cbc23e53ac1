package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// tracked is the append of batches of which some have a producer id, in one commit:
//
//  1. sort decodes the headers, and sorts the batches with a producer id by place. The order keeps
//     two appends from waiting for each other.
//  2. join locks the transactional id, if a batch is part of a transaction.
//  3. enter takes the tickets of all partitions, in this order.
//  4. judge finds duplicates and refuses batches out of order. For a batch that may begin a
//     transaction in its partition, admit sets the bound for readers.
//  5. build makes the commit: the batches that are left, snapshots, and the partitions that the
//     transaction has to include. If a topic was deleted meanwhile, it is built again without it.
//  6. leave updates the state by the outcome, fills in the answers, and gives the tickets back.
//
// Each batch has its own error code. A tracked is used again for other appends (trackeds).
type tracked struct {
	m       *Manager
	o       *AppendOptions
	appends []Append
	items   []item         // one for each append, in the same order
	order   []*item        // those with a producer id that were not refused by sort and join, by place
	txn     *transaction   // locked; nil if no batch is part of a transaction
	next    *txnState      // the new state of txn; nil if the commit does not change it
	batch   mainstem.Batch // the commit
}

// item is one append and its state.
type item struct {
	*Append
	header
	place
	ticket ticket         // the zero ticket without a producer id
	ride   *snapshot      // the head or snapshot in the commit; nil: none
	slot   partition.Slot // of the batch in the commit
	done   bool           // the batch is not in the commit: it is refused, or a duplicate
}

var trackeds = sync.Pool{New: func() any { return new(tracked) }}

// free returns k, without references to the append, to trackeds.
func (k *tracked) free() {
	clear(k.items)
	clear(k.order)
	k.batch.Reset()
	*k = tracked{items: k.items[:0], order: k.order[:0], batch: k.batch}
	trackeds.Put(k)
}

// appendTracked stores batches of which some have a producer id; see tracked.
func (m *Manager) appendTracked(ctx context.Context, o *AppendOptions, appends []Append) {
	k := trackeds.Get().(*tracked)
	defer k.free()
	k.m, k.o, k.appends = m, o, appends
	k.sort()
	if k.txn = k.join(); k.txn != nil {
		defer k.txn.mu.Unlock()
	}
	k.enter(ctx)
	for _, i := range k.order {
		if i.ticket.p != nil {
			k.judge(ctx, i)
		}
	}
	for {
		k.build(ctx)
		if k.batch.Len() == 0 {
			k.leave(nil, nil)
			return
		}
		r, err := m.log.Commit(ctx, &k.batch)
		if err == nil || !k.failGone(err) {
			k.leave(&r, err)
			return
		}
		k.endSnapshots(false)
	}
}

// sort does step 1. It refuses batches with an invalid partition, epoch or sequence number, and all
// but the first batch with a producer id for one partition.
func (k *tracked) sort() {
	k.items = slices.Grow(k.items, len(k.appends))[:len(k.appends)]
	for n := range k.items {
		i := &k.items[n]
		i.Append = &k.appends[n]
		i.place = place{i.Topic.ID(), i.Partition}
		if len(i.Batch) < recordbatch.HeaderSize {
			continue // appendTo fails
		}
		i.header = headerOf(i.Batch)
		switch {
		case i.pid < 0 || i.control: // no producer to track; appendTo fails for a control batch
		case i.num < 0 || i.num >= i.Topic.Partitions():
			i.refuse(refuse(kerr.UnknownTopicOrPartition, fmt.Sprintf("no partition %d of %s", i.num, i.Topic.Name())))
		case i.epoch < 0 || i.seq < 0:
			i.refuse(refuse(kerr.InvalidRecord, fmt.Sprintf("producer %d with epoch %d and sequence %d: neither may be negative", i.pid, i.epoch, i.seq)))
		default:
			k.order = append(k.order, i)
		}
	}
	if len(k.order) < 2 {
		return
	}
	slices.SortStableFunc(k.order, func(i, j *item) int { return i.place.compare(j.place) })
	for n := len(k.order) - 1; n > 0; n-- {
		if k.order[n].place == k.order[n-1].place {
			// A request with a ticket must not wait for another ticket of the same partition.
			k.order[n].refuse(refuse(kerr.InvalidRequest, "a second batch for the same partition in one request"))
			k.order = slices.Delete(k.order, n, n+1)
		}
	}
}

// refuse refuses the batch with r. If the batch itself is invalid, that is the error instead.
func (i *item) refuse(r *refusal) {
	i.done = true
	if _, err := recordbatch.Verify(i.Batch, recordbatch.Check{}); err != nil {
		i.fail(err)
		return
	}
	i.Code, i.Message = r.kind.Code, r.message
}

// join does step 2. If the transactional id cannot be locked it refuses all transactional batches.
func (k *tracked) join() *transaction {
	if !slices.ContainsFunc(k.order, func(i *item) bool { return i.transactional }) {
		return nil
	}
	var t *transaction
	r := refuse(kerr.TransactionalIDAuthorizationFailed, "a transactional batch in a request without a transactional id")
	if k.o.TransactionalID != nil {
		var err error
		t, err = k.m.lockTransaction(*k.o.TransactionalID)
		if t != nil {
			return t
		}
		if r, _ = err.(*refusal); r == nil {
			r = refuse(codeOf(err), err.Error())
		}
	}
	k.order = slices.DeleteFunc(k.order, func(i *item) bool {
		if i.transactional {
			i.refuse(r)
		}
		return i.transactional
	})
	return nil
}

// enter does step 3. An item whose partition cannot be loaded fails.
func (k *tracked) enter(ctx context.Context) {
	for _, i := range k.order {
		if err := k.m.partition(i.Topic, i.num).enter(ctx, &i.ticket, i.Topic, i.pid); err != nil {
			i.ticket = ticket{}
			i.done = true
			i.fail(err)
		}
	}
}

// judge does step 4 for one batch.
func (k *tracked) judge(ctx context.Context, i *item) {
	if i.transactional {
		if r := k.txn.admits(&i.header); r != nil {
			i.refuse(r)
			return
		}
	}
	again, r := i.ticket.e.check(&i.header)
	switch {
	case r != nil:
		i.refuse(r)
	case again != nil:
		i.repeat(again)
	case i.transactional:
		k.admit(ctx, i)
	}
}

// repeat answers a duplicate with the offset and time of the original s.
func (i *item) repeat(s *sent) {
	i.done = true
	if _, err := recordbatch.Verify(i.Batch, recordbatch.Check{}); err != nil {
		i.fail(err)
		return
	}
	i.Base = s.base
	if s.stamp != recordbatch.NoTimestamp {
		i.Time = time.UnixMilli(s.stamp).UTC()
	}
}

// admit refuses a batch that may not be part of the transaction, and sets the bound of one that may
// begin the transaction in its partition.
func (k *tracked) admit(ctx context.Context, i *item) {
	if !k.o.Implicit && !k.txn.state.holds(i.place) {
		i.refuse(refuse(kerr.InvalidTxnState, fmt.Sprintf("partition %d of %s was not added to an open transaction of %q", i.num, i.Topic.Name(), k.txn.id)))
		return
	}
	if len(k.txn.state.parts)+len(k.order) > MaxPartitions && !k.txn.state.holds(i.place) {
		i.refuse(refuse(kerr.InvalidRequest, fmt.Sprintf("a transaction of more than %d partitions", MaxPartitions)))
		return
	}
	if i.ticket.e.first >= 0 {
		return // the transaction is open in the partition already
	}
	end, err := i.Topic.End(ctx, i.num)
	if err != nil {
		i.done = true
		i.fail(err)
		return
	}
	i.ticket.hold(end)
}

// build does step 5. It may be called again.
func (k *tracked) build(ctx context.Context) {
	k.batch.Reset()
	k.batch.Durability, k.next = k.o.Durability, nil
	for n := range k.items {
		i := &k.items[n]
		if i.done {
			continue
		}
		var err error
		if i.slot, err = i.appendTo(ctx, &k.batch); err != nil {
			i.done = true
			i.fail(err)
			continue
		}
		if i.ticket.p == nil {
			continue
		}
		i.ride = i.ticket.ride(&k.batch)
		if i.transactional && !k.txn.state.holds(i.place) {
			k.extend(i)
		}
	}
	if k.next != nil {
		k.txn.put(&k.batch, k.next)
	}
}

// extend adds the partition of an item to the transaction.
func (k *tracked) extend(i *item) {
	if k.next == nil {
		k.next = k.txn.state.begun(k.m.now())
		k.next.implicit = true
	}
	k.next.add(i.place, i.Topic.Name())
}

// failGone fails the items of the topic of which err says that it does not exist. It reports
// whether there were any: the others may be built again.
func (k *tracked) failGone(err error) bool {
	space, found := goneSpace(err), false
	for n := range k.items {
		if i := &k.items[n]; space != "" && !i.done && topic.Space(i.Topic.Name()) == space {
			i.done, found = true, true
			i.fail(err)
		}
	}
	return found
}

// endSnapshots ends the snapshots that were part of the commit, as committed or failed.
func (k *tracked) endSnapshots(committed bool) {
	for n := range k.items {
		if i := &k.items[n]; i.ride != nil {
			i.ticket.p.mu.Lock()
			i.ride.endLocked(committed)
			i.ticket.p.mu.Unlock()
			i.ride = nil
		}
	}
}

// leave does step 6, after the commit has succeeded with receipt r or failed with err; both are nil
// if there was nothing to commit.
func (k *tracked) leave(r *mainstem.Receipt, err error) {
	unknown := errors.Is(err, mainstem.ErrUnknownOutcome)
	committed, now := r != nil && err == nil, k.m.now()
	k.endSnapshots(committed)
	if k.next != nil {
		k.m.resolveTransaction(k.txn, k.next, err)
	}
	for n := range k.items {
		i := &k.items[n]
		var at partition.Appended
		switch {
		case i.done:
		case err != nil:
			i.fail(err)
		default:
			at = i.slot.In(*r)
			i.stored(at)
		}
		if i.ticket.p == nil {
			continue
		}
		i.ticket.leave(func() {
			switch {
			case unknown:
				i.ticket.p.dropLocked()
			case committed && !i.done:
				i.ticket.stored(&i.header, at, now)
			}
		})
	}
}
