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

// tracked is the append of batches of which some have a producer id.
type tracked struct {
	m       *Manager
	o       *AppendOptions
	appends []Append
	items   []item       // one for each append
	order   []*item      // those with a producer id, in the order of their places
	txn     *transaction // held; nil if no batch is part of a transaction
	next    *txnState    // of txn, if the commit changes it; else nil
	batch   mainstem.Batch
}

// item is one append on its way.
type item struct {
	*Append
	header
	place
	ticket ticket // of no partition without a producer id
	ride   *snapshot
	slot   partition.Slot
	done   bool // there is nothing to store: refused, or a duplicate
}

var trackeds = sync.Pool{New: func() any { return new(tracked) }}

// free makes the memory of an append that is over available to the next.
func (k *tracked) free() {
	clear(k.items)
	clear(k.order)
	k.batch.Reset()
	*k = tracked{items: k.items[:0], order: k.order[:0], batch: k.batch}
	trackeds.Put(k)
}

// appendTracked stores batches of which some have a producer id.
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

// sort makes the items, and puts those with a producer id in order.
func (k *tracked) sort() {
	k.items = slices.Grow(k.items, len(k.appends))[:len(k.appends)]
	for n := range k.items {
		i := &k.items[n]
		i.Append = &k.appends[n]
		i.place = place{i.Topic.ID(), i.Partition}
		if len(i.Batch) < recordbatch.HeaderSize {
			continue // it will be refused
		}
		i.header = headerOf(i.Batch)
		switch {
		case i.pid < 0 || i.control: // there is nothing to track, or it will be refused
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
			// The holder of a ticket must not wait for another of the same partition.
			k.order[n].refuse(refuse(kerr.InvalidRequest, "a second batch for the same partition in one request"))
			k.order = slices.Delete(k.order, n, n+1)
		}
	}
}

// refuse refuses the batch, for what is wrong with the batch itself if anything is.
func (i *item) refuse(r *refusal) {
	i.done = true
	if _, err := recordbatch.Verify(i.Batch, recordbatch.Check{}); err != nil {
		i.fail(err)
		return
	}
	i.Code, i.Message = r.kind.Code, r.message
}

// join locks the transactional id of the request, if a batch is part of a
// transaction. It refuses such batches if that cannot be.
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

// enter gets a ticket for each item.
func (k *tracked) enter(ctx context.Context) {
	for _, i := range k.order {
		if err := k.m.partition(i.Topic, i.num).enter(ctx, &i.ticket, i.Topic, i.pid); err != nil {
			i.ticket = ticket{}
			i.done = true
			i.fail(err)
		}
	}
}

// judge decides whether a batch is to be stored.
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

// repeat answers a batch that was stored before.
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

// admit lets a batch into the transaction of its producer.
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
		return // readers are held off already
	}
	end, err := i.Topic.End(ctx, i.num)
	if err != nil {
		i.done = true
		i.fail(err)
		return
	}
	i.ticket.hold(end)
}

// build makes the batch of the log.
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

// failGone fails what is for the topic of which err says that it is not there. It
// reports whether there was any: the rest may be tried again.
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

// endSnapshots ends the snapshots that were part of the commit.
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

// leave gives the tickets back when the commit has succeeded with receipt r, failed
// with err, or was not needed.
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
