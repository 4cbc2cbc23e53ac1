package topic

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// sendBytes bounds the record batches of one commit, in bytes before compression; a single batch
// may be larger. spareDrafts is how many empty drafts are kept for their memory.
const (
	sendBytes   = 8 << 20
	spareDrafts = 16
)

// run is the sender: it commits sealed drafts until the producer is closed and all are sent.
func (p *Producer) run() {
	defer close(p.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		drafts, wait, ended := p.take()
		switch {
		case len(drafts) > 0:
			p.send(drafts)
		case ended:
			return
		case wait > 0:
			timer.Reset(wait)
			select {
			case <-p.wake:
			case <-timer.C:
			}
		default:
			<-p.wake
		}
	}
}

// take returns the drafts to commit now. If there are none, wait is the time until the oldest open
// draft has lingered long enough, or 0 if no draft is open. ended is true if the producer is closed
// and all is sent.
func (p *Producer) take() (drafts []*draft, wait time.Duration, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = p.sealDueLocked()
	n, bytes := 0, 0
	for _, d := range p.mu.ready {
		if bytes += d.b.Size(); n > 0 && bytes > sendBytes {
			break
		}
		n++
	}
	p.mu.sending = append(p.mu.sending[:0], p.mu.ready[:n]...)
	rest := copy(p.mu.ready, p.mu.ready[n:])
	clear(p.mu.ready[rest:])
	p.mu.ready = p.mu.ready[:rest]
	return p.mu.sending, wait, p.mu.closed && n == 0 && len(p.mu.open) == 0
}

// sealDueLocked seals the open drafts that have lingered long enough and returns the time until the
// next one has, or 0 if no draft is left open.
func (p *Producer) sealDueLocked() time.Duration {
	now := time.Now()
	for i, d := range p.mu.order {
		if d.sealed {
			continue
		}
		if left := p.o.Linger - now.Sub(d.born); left > 0 {
			p.mu.order = append(p.mu.order[:0], p.mu.order[i:]...)
			return left
		}
		p.sealLocked(d)
	}
	p.mu.order = p.mu.order[:0]
	return 0
}

// send commits drafts together, calls the callbacks of their records and releases the drafts. A
// draft that may not be stored fails alone; an error of the commit fails all the others. The commit
// has no deadline.
func (p *Producer) send(drafts []*draft) {
	b := batches.Get().(*mainstem.Batch)
	defer putBatch(b)
	b.Durability = p.o.Durability
	slots := make([]partition.Slot, len(drafts))
	refused := make([]error, len(drafts))
	for i, d := range drafts {
		slots[i], refused[i] = p.finish(b, d)
	}
	var r mainstem.Receipt
	var err error
	if b.Len() > 0 {
		if r, err = p.t.c.log.Commit(context.Background(), b); err != nil {
			err = p.t.seen(err)
		}
	}
	var first error
	for i, d := range drafts {
		failure := refused[i]
		if failure == nil {
			failure = err
		}
		if failure != nil {
			if first == nil {
				first = failure
			}
			d.fulfil(Appended{Partition: d.p.num}, failure)
			continue
		}
		d.fulfil(slots[i].In(r), nil)
	}
	p.release(drafts, first)
}

// finish builds the record batch of d and adds it to b.
func (p *Producer) finish(b *mainstem.Batch, d *draft) (partition.Slot, error) {
	const op = "produce"
	data, err := d.b.Finish(p.o.Compression)
	if err != nil {
		return partition.Slot{}, p.t.refuse(op, err)
	}
	if err := p.t.rules().CheckSize(len(data)); err != nil {
		return partition.Slot{}, p.t.refuse(op, err)
	}
	return d.p.AppendOwnTo(b, data, uint32(d.b.Len())), nil
}

// fulfil calls the callback of each record.
func (d *draft) fulfil(a Appended, err error) {
	for i, done := range d.promises {
		if done == nil {
			continue
		}
		if err != nil {
			done(Sent{Partition: a.Partition}, err)
			continue
		}
		done(Sent{Partition: a.Partition, Offset: a.Base + int64(i)}, nil)
	}
}

// release takes the drafts of a commit out of the buffer and wakes those that wait for the drafts
// or for bytes of the buffer. The memory of a draft goes on in a new draft: order may still have
// the old one, which must stay sealed.
func (p *Producer) release(drafts []*draft, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failLocked(err)
	}
	for _, d := range drafts {
		p.mu.held -= d.held
		if d.done != nil {
			close(d.done)
		}
		clear(d.promises)
		if len(p.mu.spare) < spareDrafts {
			d.b.Reset()
			p.mu.spare = append(p.mu.spare, &draft{b: d.b, promises: d.promises[:0]})
		}
	}
	p.mu.sending = p.mu.sending[:0]
	if p.mu.freed != nil {
		close(p.mu.freed)
		p.mu.freed = nil
	}
}
