package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/topic/internal/unpack"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Options are what the partitions of one topic have in common.
type Options struct {
	Space  string           // of the topic
	Rules  func() *Rules    // in force now; what it returns is not changed any more
	Now    func() time.Time // for timestamps
	Memory *budget.Budget   // for decompressing batches that are checked
}

// Partition takes the record batches of one partition of a topic. Its methods may be called
// from many goroutines. Get one from the topic; it serves until the topic is deleted.
type Partition struct {
	o   *Options
	num int32
	key []byte
	end atomic.Int64
}

// New returns the partition numbered num of the topic that o is about.
func New(o *Options, num int32) *Partition { return &Partition{o: o, num: num, key: Key(num)} }

// Key returns the key of a partition in its topic's space: 4 bytes, big-endian.
func Key(num int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(num)) }

// Number returns which partition of its topic this is.
func (p *Partition) Number() int32 { return p.num }

// Key returns the partition's key in the topic's space. It must not be changed.
func (p *Partition) Key() []byte { return p.key }

// KnownEnd returns the newest end that was seen: at most the true one. It never falls.
func (p *Partition) KnownEnd() int64 { return p.end.Load() }

// Seen takes notice that the partition ends at end or later.
func (p *Partition) Seen(end int64) {
	for {
		old := p.end.Load()
		if old >= end || p.end.CompareAndSwap(old, end) {
			return
		}
	}
}

// Slot is the place of a record batch in a batch of the log that is not yet committed.
type Slot struct {
	p       *Partition
	index   int // of the write
	offsets uint32
	stamp   int64 // log append time in milliseconds, NoTimestamp if the batch keeps its own
}

// Appended says where a record batch went.
type Appended struct {
	Partition int32
	Base      int64     // offset of the first record
	Next      int64     // offset after the last record
	Time      time.Time // the log append time given to the records; zero if they keep their own
}

// In returns where the record batch went, given the receipt of the committed batch that it
// was put into.
func (s Slot) In(r mainstem.Receipt) Appended {
	next := int64(r.Versions[s.index])
	s.p.Seen(next)
	a := Appended{Partition: s.p.num, Base: next - int64(s.offsets), Next: next}
	if s.stamp != recordbatch.NoTimestamp {
		a.Time = time.UnixMilli(s.stamp).UTC()
	}
	return a
}

// AppendTo puts one record batch into b, exactly as a Kafka producer sent it. One that may
// not be stored is Invalid, with a [*recordbatch.Error] as its cause, and leaves b as it was:
// so a server commits what many clients sent, and leaves out what one of them sent wrongly.
// Checking a compressed batch waits up to 10 s for memory, and fails with Unavailable when
// there is none, or when ctx ends. The bytes are borrowed until b is committed and are not
// changed: where timestamps are replaced, a copy is stored.
func (p *Partition) AppendTo(ctx context.Context, b *mainstem.Batch, batch []byte) (Slot, error) {
	const op = "append"
	r := p.o.Rules()
	u := unpack.New(ctx, p.o.Memory)
	defer u.Release()
	h, err := recordbatch.Verify(batch, recordbatch.Check{MaxBytes: int(r.MaxMessage), Open: true, Keys: r.Compact, Room: u.Room})
	if unpack.NoRoom(err) {
		return Slot{}, err
	}
	if err != nil {
		return Slot{}, Refuse(op, p.o.Space, err)
	}
	now := p.o.Now().UnixMilli()
	if r.LogAppendTime {
		return p.stamped(b, bytes.Clone(batch), h.Offsets(), now), nil
	}
	if err := r.checkTimes(&h, now); err != nil {
		return Slot{}, Refuse(op, p.o.Space, err)
	}
	return p.put(b, batch, h.Offsets(), recordbatch.NoTimestamp), nil
}

// AppendOwnTo puts into b a record batch of the given number of offsets that the caller made
// itself: it is not checked. Its timestamps are replaced in place if the rules say so.
func (p *Partition) AppendOwnTo(b *mainstem.Batch, batch []byte, offsets uint32) Slot {
	if p.o.Rules().LogAppendTime {
		return p.stamped(b, batch, offsets, p.o.Now().UnixMilli())
	}
	return p.put(b, batch, offsets, recordbatch.NoTimestamp)
}

// AppendMarkerTo puts the end of a transaction into b. Only what coordinates transactions may
// call it, in the commit that ends the transaction: readers act on markers.
func (p *Partition) AppendMarkerTo(b *mainstem.Batch, m recordbatch.Marker) Slot {
	return p.put(b, m.Batch(), 1, recordbatch.NoTimestamp)
}

// stamped is put after giving the records the log append time now, in place.
func (p *Partition) stamped(b *mainstem.Batch, batch []byte, offsets uint32, now int64) Slot {
	recordbatch.Stamp(batch, now)
	return p.put(b, batch, offsets, now)
}

// put adds the write of a record batch.
func (p *Partition) put(b *mainstem.Batch, batch []byte, offsets uint32, stamp int64) Slot {
	b.Add(mainstem.Write{Op: mainstem.OpPut, Space: p.o.Space, Key: p.key, Value: batch, Count: offsets})
	return Slot{p: p, index: b.Len() - 1, offsets: offsets, stamp: stamp}
}
