package topic

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Slot is the place of a record batch in a batch of the log that is not yet
// committed.
type Slot struct {
	p       *partition
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

// In returns where the record batch went, given the receipt of the committed
// batch that it was put into.
func (s Slot) In(r mainstem.Receipt) Appended {
	next := int64(r.Versions[s.index])
	raise(&s.p.end, next)
	a := Appended{Partition: s.p.num, Base: next - int64(s.offsets), Next: next}
	if s.stamp != recordbatch.NoTimestamp {
		a.Time = time.UnixMilli(s.stamp).UTC()
	}
	return a
}

// Append commits one record batch, exactly as a Kafka producer sent it, to a
// partition. The batch has the log's durability when Append returns. A batch
// that may not be stored is Invalid: its cause is a [*recordbatch.Error] with
// the reason. The bytes are borrowed until Append returns and not changed.
func (t *Topic) Append(ctx context.Context, partition int32, batch []byte) (Appended, error) {
	b := batches.Get().(*mainstem.Batch)
	defer putBatch(b)
	slot, err := t.TryAppendTo(b, partition, batch)
	if err != nil {
		return Appended{}, err
	}
	r, err := t.c.log.Commit(ctx, b)
	if err != nil {
		return Appended{}, t.seen(err)
	}
	return slot.In(r), nil
}

// commit commits what write puts into a batch, and returns where it went.
func (t *Topic) commit(ctx context.Context, write func(b *mainstem.Batch) []Slot) ([]Appended, error) {
	b := batches.Get().(*mainstem.Batch)
	defer putBatch(b)
	slots := write(b)
	if err := b.Err(); err != nil {
		return nil, err // it says nothing about whether the topic is still there
	}
	r, err := t.c.log.Commit(ctx, b)
	if err != nil {
		return nil, t.seen(err)
	}
	out := make([]Appended, len(slots))
	for i := range slots {
		out[i] = slots[i].In(r)
	}
	return out, nil
}

// AppendTo verifies a record batch and puts it into b, to be committed with
// whatever else is there. It decompresses the records to check them, as Kafka does, within
// [Options.Memory]. A mistake shows when b is committed, and nothing is then written; after
// the commit, [Slot.In] tells the offsets. The bytes are borrowed until b is committed; they
// are not changed: a topic with LogAppendTime stores a copy.
func (t *Topic) AppendTo(b *mainstem.Batch, partition int32, batch []byte) Slot {
	slot, err := t.TryAppendTo(b, partition, batch)
	if err != nil {
		b.Fail(err)
	}
	return slot
}

// TryAppendTo is [Topic.AppendTo] for a server that commits what many clients sent: a
// batch that may not be stored is an error that leaves b as it was. Without memory in time
// the error is Unavailable.
func (t *Topic) TryAppendTo(b *mainstem.Batch, partition int32, batch []byte) (Slot, error) {
	const op = "append"
	p, err := t.partition(op, partition)
	if err != nil {
		return Slot{}, err
	}
	s := &t.now().settings
	u := t.c.unpack(t.c.ctx)
	defer u.release()
	h, err := recordbatch.Verify(batch, recordbatch.Check{MaxBytes: int(s.maxMessage), Open: true, Keys: s.compact, Room: u.room})
	if noRoom(err) {
		return Slot{}, err
	}
	if err != nil {
		return Slot{}, t.refuse(op, err)
	}
	now := t.c.o.Now().UnixMilli()
	if s.logAppendTime {
		batch = bytes.Clone(batch)
		recordbatch.Stamp(batch, now)
		return p.put(b, batch, h.Offsets(), now), nil
	}
	if h.LogAppendTime() {
		return Slot{}, t.refuse(op, badTime("the batch claims log append time: only the topic's %s can ask for it", TimestampType))
	}
	if err := cmp.Or(s.checkTime(h.FirstTimestamp, now), s.checkTime(h.MaxTimestamp, now)); err != nil {
		return Slot{}, t.refuse(op, err)
	}
	return p.put(b, batch, h.Offsets(), recordbatch.NoTimestamp), nil
}

// AppendMarkerTo puts the end of a transaction into b. Only what coordinates
// transactions may call it: readers act on markers.
func (t *Topic) AppendMarkerTo(b *mainstem.Batch, partition int32, m recordbatch.Marker) Slot {
	p, err := t.partition("append marker", partition)
	if err != nil {
		b.Fail(err)
		return Slot{}
	}
	return p.put(b, m.Batch(), 1, recordbatch.NoTimestamp)
}

// put adds the write of a record batch that was checked.
func (p *partition) put(b *mainstem.Batch, batch []byte, offsets uint32, stamp int64) Slot {
	b.Add(mainstem.Write{Op: mainstem.OpPut, Space: p.t.space, Key: p.key, Value: batch, Count: offsets})
	return Slot{p: p, index: b.Len() - 1, offsets: offsets, stamp: stamp}
}

// checkTime checks a producer's timestamp against the clock.
func (s *settings) checkTime(ms, now int64) error {
	switch {
	case ms == recordbatch.NoTimestamp:
	case ms > now && ms-now > s.after:
		return badTime("timestamp %d is %d ms ahead of the clock: %s is %d", ms, ms-now, TimestampAfter, s.after)
	case s.before < math.MaxInt64 && ms < now && now-ms > s.before:
		return badTime("timestamp %d is %d ms behind the clock: %s is %d", ms, now-ms, TimestampBefore, s.before)
	}
	return nil
}

func badTime(format string, args ...any) error {
	return &recordbatch.Error{Reason: recordbatch.BadTimestamp, Err: fmt.Errorf(format, args...)}
}

// refuse makes an error of the topic from why a record batch may not be stored.
func (t *Topic) refuse(op string, err error) error {
	e := t.fail(mainstem.KindInvalid, op, err)
	var why *recordbatch.Error
	if errors.As(err, &why) && why.Reason == recordbatch.TooLarge {
		e.Hint = "send smaller batches or raise " + MaxMessageBytes
	}
	return e
}

// batches are empty batches of the log.
var batches = sync.Pool{New: func() any { return mainstem.NewBatch() }}

func putBatch(b *mainstem.Batch) {
	b.Reset()
	batches.Put(b)
}
