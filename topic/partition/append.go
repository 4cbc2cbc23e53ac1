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

// Options are common to all partitions of a topic. They must not change.
type Options struct {
	Space  string           // the topic's space
	Rules  func() *Rules    // returns the present rules, which must not change afterwards
	Now    func() time.Time // the clock for log append times and checks of timestamps
	Memory *budget.Budget   // from which memory for decompressing batches is reserved
}

// Partition appends record batches to one partition of a topic. Its methods may be called from many
// goroutines. Get it from the topic. Appends do not check that the topic still exists: if it was
// deleted, the commit fails with NotFound, or appends to a topic that was created under its name
// since.
type Partition struct {
	o   *Options
	num int32
	key []byte
	end atomic.Int64 // see KnownEnd
}

// New returns partition num of the topic that o describes.
func New(o *Options, num int32) *Partition { return &Partition{o: o, num: num, key: Key(num)} }

// Key returns the key of partition num in its topic's space: 4 bytes, big-endian. It belongs to the
// caller.
func Key(num int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(num)) }

// Number returns the number of the partition in its topic.
func (p *Partition) Number() int32 { return p.num }

// Key returns the partition's key in the topic's space. It must not be changed.
func (p *Partition) Key() []byte { return p.key }

// KnownEnd returns the highest end that was passed to Seen or committed here. It never decreases,
// and the true end is never lower.
func (p *Partition) KnownEnd() int64 { return p.end.Load() }

// Seen records that the partition has reached end.
func (p *Partition) Seen(end int64) {
	for {
		old := p.end.Load()
		if old >= end || p.end.CompareAndSwap(old, end) {
			return
		}
	}
}

// Slot is a record batch in a batch of the log. After the commit it returns the offsets that the
// record batch got.
type Slot struct {
	p       *Partition
	index   int    // of the write in the batch of the log
	offsets uint32 // number of offsets of the record batch
	stamp   int64  // log append time, ms since 1970; NoTimestamp if the records keep theirs
}

// Appended says which offsets a record batch got.
type Appended struct {
	Partition int32
	Base      int64     // offset of the first record
	Next      int64     // offset after the last record
	Time      time.Time // the log append time; zero if the records keep their timestamps
}

// In returns the offsets of the record batch, given the receipt of the commit of its batch of the
// log. The slot of a failed append has none.
func (s Slot) In(r mainstem.Receipt) Appended {
	next := int64(r.Versions[s.index])
	s.p.Seen(next)
	a := Appended{Partition: s.p.num, Base: next - int64(s.offsets), Next: next}
	if s.stamp != recordbatch.NoTimestamp {
		a.Time = time.UnixMilli(s.stamp).UTC()
	}
	return a
}

// AppendTo adds one record batch, as a Kafka producer sent it, to b. It decompresses the records to
// check them. If it fails, b is as it was, so a server can put the batches of many clients into one
// commit and refuse those that are invalid.
//
// A batch that may not be stored is Invalid, with a [*recordbatch.Error] as its cause. To
// decompress a batch it waits for memory, up to 10 s or until ctx ends, and then fails with
// Unavailable. The bytes are borrowed until b is committed and are not changed: if timestamps are
// replaced, a copy is stored.
func (p *Partition) AppendTo(ctx context.Context, b *mainstem.Batch, batch []byte) (Slot, error) {
	const op = "append"
	r := p.o.Rules()
	if err := r.CheckSize(len(batch)); err != nil {
		return Slot{}, Refuse(op, p.o.Space, err)
	}
	u := unpack.New(ctx, p.o.Memory)
	defer u.Release()
	h, err := recordbatch.Verify(batch, recordbatch.Check{Open: true, Keys: r.Compact, Room: u.Room})
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

// AppendOwnTo adds a record batch that the caller has built, with the given number of offsets, to
// b. It does not check the batch. If the rules say LogAppendTime, it changes the timestamps in
// place. The bytes are borrowed until b is committed.
func (p *Partition) AppendOwnTo(b *mainstem.Batch, batch []byte, offsets uint32) Slot {
	if p.o.Rules().LogAppendTime {
		return p.stamped(b, batch, offsets, p.o.Now().UnixMilli())
	}
	return p.put(b, batch, offsets, recordbatch.NoTimestamp)
}

// AppendMarkerTo adds the marker of a transaction to b. Only a coordinator of transactions may call
// it, for the commit that ends the transaction, because readers act on markers.
func (p *Partition) AppendMarkerTo(b *mainstem.Batch, m recordbatch.Marker) Slot {
	return p.put(b, m.Batch(), 1, recordbatch.NoTimestamp)
}

// stamped is put for a batch whose records get the log append time now, in milliseconds since 1970.
// It changes batch.
func (p *Partition) stamped(b *mainstem.Batch, batch []byte, offsets uint32, now int64) Slot {
	recordbatch.Stamp(batch, now)
	return p.put(b, batch, offsets, now)
}

// put adds a record batch to b.
func (p *Partition) put(b *mainstem.Batch, batch []byte, offsets uint32, stamp int64) Slot {
	b.Add(mainstem.Write{Op: mainstem.OpPut, Space: p.o.Space, Key: p.key, Value: batch, Count: offsets})
	return Slot{p: p, index: b.Len() - 1, offsets: offsets, stamp: stamp}
}
