package producer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Recovery of a partition:
//
//  1. Wait until no commit to the partition is under way: its batches must be in the log.
//  2. Read the head, the producers and the aborted transactions that are stored.
//  3. Read the batches from the head on, and apply each to its producer. The stored state of a
//     producer may be newer than the head; batches up to its last offset are passed over.
//
// Without a stored head no batch with a producer id was ever committed here, and there is nothing
// to read.

// loadLocked loads the partition unless it is loaded. It holds the lock while it reads, because all
// other users of the partition need it loaded. After an error it is not loaded.
func (p *partitionState) loadLocked(ctx context.Context, t *topic.Topic) error {
	for !p.loaded && (len(p.tickets) > 0 || p.saved.saving) {
		p.left.Wait()
	}
	if p.loaded {
		return nil
	}
	p.t = t
	p.stored, p.head, p.known = false, 0, 0
	p.producers, p.open = map[int64]*producer{}, map[*producer]struct{}{}
	p.aborted = nil
	p.saved = savedState{expired: map[int64]struct{}{}}
	if err := p.readLocked(ctx); err != nil {
		return err
	}
	end, err := t.End(ctx, p.num)
	if err != nil {
		return err
	}
	if p.stored {
		if err := p.scanLocked(ctx, min(p.head, end)); err != nil {
			return err
		}
	} else {
		p.head = end // any batch with a producer id will be at end or above
	}
	p.known = max(p.known, end)
	for _, e := range p.producers {
		p.reopenLocked(e)
	}
	p.loaded = true
	return nil
}

// readLocked does step 2.
func (p *partitionState) readLocked(ctx context.Context) error {
	for rec, err := range p.m.log.Scan(ctx, Space, mainstem.Range{Prefix: headKey(p.place)}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return nil // nothing was ever stored
		}
		if err != nil {
			return err
		}
		if err := p.readOneLocked(&rec); err != nil {
			return mainstem.Errorf(mainstem.KindCorrupt, "kafka producers", "%w", err).At(Space, rec.Key)
		}
	}
	return nil
}

// readOneLocked decodes one stored record of the partition.
func (p *partitionState) readOneLocked(rec *mainstem.Record) error {
	kind, n, err := splitPartKey(rec.Key)
	if err != nil {
		return err
	}
	switch kind {
	case producerPart:
		p.producers[n], err = decodeProducer(n, rec.Value)
	case abortedPart:
		var run []Aborted
		run, err = decodeAborted(rec.Value)
		for _, a := range run {
			p.insertLocked(a)
		}
		p.saved.runs = append(p.saved.runs, n)
	default:
		p.stored = true
		p.head, err = decodeOffset(rec.Value)
	}
	return err
}

// scanBytes is the size of one read of a partition.
const scanBytes = 1 << 20

// scanLocked does step 3, for the batches from offset from on.
func (p *partitionState) scanLocked(ctx context.Context, from int64) error {
	o := partition.ReadOptions{MaxBytes: scanBytes}
	for {
		start, err := p.t.Start(ctx, p.num)
		if err != nil {
			return err
		}
		from = max(from, start)
		chunk, err := p.t.Read(ctx, p.num, from, &o)
		var out *topic.OutOfRangeError
		if errors.As(err, &out) && out.Start > from {
			continue // the start has moved meanwhile
		}
		if err != nil {
			return err
		}
		if len(chunk.Data) == 0 {
			p.known = chunk.Next
			return nil
		}
		if err := p.takeLocked(chunk.Data); err != nil {
			return fmt.Errorf("recovering the producers of %s, partition %d, from offset %d: %w", p.t.Name(), p.num, from, err)
		}
		from, o.Buffer = chunk.Next, chunk.Data[:0]
	}
}

// takeLocked applies the batches in data.
func (p *partitionState) takeLocked(data []byte) error {
	for len(data) >= recordbatch.HeaderSize {
		size := lengthPrefix + int(int32(binary.BigEndian.Uint32(data[atLength:])))
		if size < recordbatch.HeaderSize || size > len(data) {
			return errors.New("a stored record batch has a wrong length")
		}
		if producerID(data) >= 0 {
			if err := p.takeOneLocked(data[:size]); err != nil {
				return err
			}
		}
		data = data[size:]
	}
	return nil
}

// takeOneLocked applies a batch to its producer, unless the state of the producer includes it.
func (p *partitionState) takeOneLocked(batch []byte) error {
	h := headerOf(batch)
	base := int64(binary.BigEndian.Uint64(batch))
	e := p.producers[h.pid]
	if e == nil {
		e = newProducer(h.pid)
		p.producers[h.pid] = e
	}
	if base <= e.last {
		return nil
	}
	e.time = p.m.now()
	if h.control {
		parsed, err := recordbatch.Parse(batch)
		if err != nil {
			return err
		}
		commit, ok := parsed.Committed()
		if !ok {
			return nil
		}
		if first := e.end(h.epoch, base); first >= 0 && !commit {
			p.abortLocked(Aborted{ProducerID: h.pid, First: first, Last: base})
		}
	} else {
		e.apply(&h, base, logAppendTime(batch))
	}
	p.changedLocked(e, base+int64(h.delta)+1)
	return nil
}

// logAppendTime returns the log append time of a batch, or NoTimestamp.
func logAppendTime(batch []byte) int64 {
	const bit, atMaxTimestamp = 1 << 3, 35
	if binary.BigEndian.Uint16(batch[atAttributes:])&bit == 0 {
		return recordbatch.NoTimestamp
	}
	return int64(binary.BigEndian.Uint64(batch[atMaxTimestamp:]))
}

// abortLocked adds an aborted transaction, which the next snapshot stores.
func (p *partitionState) abortLocked(a Aborted) {
	if p.insertLocked(a) {
		p.saved.aborted = append(p.saved.aborted, a)
	}
}

// insertLocked adds a to p.aborted, and reports whether it was not there.
func (p *partitionState) insertLocked(a Aborted) bool {
	i, found := slices.BinarySearchFunc(p.aborted, a.Last, byLast)
	if !found {
		p.aborted = slices.Insert(p.aborted, i, a)
	}
	return !found
}

// byLast compares transactions by the offset of their marker.
func byLast(a Aborted, last int64) int {
	switch {
	case a.Last < last:
		return -1
	case a.Last > last:
		return 1
	}
	return 0
}
