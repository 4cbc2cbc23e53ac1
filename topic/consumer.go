package topic

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/internal/unpack"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// From is where [Topic.Consume] begins. The zero From is [FromStart].
type From struct {
	kind    fromKind
	time    time.Time       // fromTime
	offsets map[int32]int64 // fromOffsets, by partition
	group   string          // fromGroup
	then    *From           // fromGroup, for partitions without a stored offset
}

type fromKind uint8

const (
	fromStart fromKind = iota
	fromEnd
	fromTime
	fromOffsets
	fromGroup
)

// FromStart begins with the first record of each partition.
func FromStart() From { return From{} }

// FromEnd begins at the end of each partition: it skips the records that are there.
func FromEnd() From { return From{kind: fromEnd} }

// FromTime begins in each partition with the first record whose timestamp is at or after t, as
// [Topic.OffsetForTime] finds it; at the end if there is none.
func FromTime(t time.Time) From { return From{kind: fromTime, time: t} }

// FromOffsets begins at the given offset of each partition, by number; at the start of the others.
func FromOffsets(offsets map[int32]int64) From { return From{kind: fromOffsets, offsets: offsets} }

// FromGroup begins at the offset that a consumer group has stored for each partition, see
// [Topic.Offsets]; where it has stored none, as otherwise says.
func FromGroup(group string, otherwise From) From {
	return From{kind: fromGroup, group: group, then: &otherwise}
}

// ConsumeOptions are options of [Topic.Consume]. nil and zero fields mean the defaults.
type ConsumeOptions struct {
	From       From    // default: the start
	Partitions []int32 // default: all; with Follow also partitions added later, from their start
	Follow     bool    // wait for more records; else end where each partition ended when the loop began
	SkipLost   bool    // skip records that were removed before they were read; default: an error
	MaxBytes   int     // that are read of one partition at a time; default [partition.DefaultReadBytes]
}

// Consume yields records, within a partition in the order of offsets, between partitions in no
// order. Each loop over the sequence begins anew. It checks the CRC of each batch, decompresses all
// codecs and skips transaction markers. It yields the records of all transactions, committed, open
// or aborted.
//
// A record is lent until the loop body returns: see [Record.Clone]. An error ends the sequence:
// Invalid, with an [*OutOfRangeError] as its cause, for an offset that the partition does not have;
// Canceled when ctx ends; Closed; NotFound when the topic is deleted; Corrupt; or Unavailable if
// there was no memory to decompress a batch for 10 s. All consumers of a catalog share that memory,
// see [Options.Memory].
func (t *Topic) Consume(ctx context.Context, o *ConsumeOptions) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		c := consumer{t: t}
		if o != nil {
			c.o = *o
		}
		err := c.run(ctx, func(r Record) bool { return yield(r, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(Record{}, err)
		}
	}
}

// errStopped ends a consumer whose loop was left by its body.
var errStopped = errors.New("stopped")

// consumer is one loop over the sequence of Consume. It belongs to the goroutine of the loop.
//
// It reads in rounds. A round reads once from each active cursor; a cursor without data becomes
// inactive. When none is active, the consumer ends or, with Follow, waits. Each partition was added
// to the waiter before it is first read, so records that come later wake the consumer, and the
// cursors of their partitions become active.
type consumer struct {
	t       *Topic
	o       ConsumeOptions
	cursors map[int32]*cursor // by partition
	waiter  *Waiter           // nil unless following
	buf     []byte            // of the last Read, for reuse
	decoder recordbatch.Decoder
	memory  *unpack.Memory // the reservation for the buffer of decoder
}

// keepWaiting is how many decompressed bytes of the decoder a consumer keeps while it waits for
// records.
const keepWaiting = 1 << 20

// idle releases a large buffer of the decoder and its reservation.
func (c *consumer) idle() {
	if c.memory.Size() > keepWaiting {
		c.decoder.Reset()
		c.memory.Release()
	}
}

// cursor is the position of a consumer in a partition.
type cursor struct {
	partition int32
	next      int64 // the offset to read next
	until     int64 // the offset at which to end; math.MaxInt64 with Follow
}

// run yields records until they are at an end, an error occurs, or yield returns false, which is
// errStopped.
func (c *consumer) run(ctx context.Context, yield func(Record) bool) error {
	c.memory = unpack.New(ctx, c.t.c.consumers)
	defer c.memory.Release()
	c.decoder.Room = c.memory.Room
	if c.o.Follow {
		c.waiter = c.t.c.NewWaiter()
		defer c.waiter.Close()
	}
	c.cursors = map[int32]*cursor{}
	nums := c.o.Partitions
	if nums == nil {
		nums = count(0, c.t.Partitions())
	}
	active, err := c.begin(ctx, nums, c.o.From)
	for err == nil {
		for len(active) > 0 && err == nil {
			active, err = c.round(ctx, active, yield)
		}
		if err != nil || !c.o.Follow {
			return err
		}
		c.idle()
		if err := c.waiter.Wait(ctx); err != nil {
			return err
		}
		active, err = c.woken(ctx)
	}
	return err
}

// count returns the numbers from up to to-1.
func count(from, to int32) []int32 {
	var out []int32
	for ; from < to; from++ {
		out = append(out, from)
	}
	return out
}

// begin returns new cursors for the partitions with the numbers nums.
func (c *consumer) begin(ctx context.Context, nums []int32, from From) ([]*cursor, error) {
	places, err := from.resolve(ctx, c.t, nums)
	if err != nil {
		return nil, err
	}
	var out []*cursor
	for i, num := range nums {
		cur := &cursor{partition: num, next: places[i], until: math.MaxInt64}
		if c.o.Follow {
			err = c.waiter.Add(ctx, c.t, num)
		} else {
			cur.until, err = c.t.End(ctx, num)
		}
		if err != nil {
			return nil, err
		}
		if cur.next > cur.until {
			return nil, c.t.now().parts[num].outOfRange("consume", cur.next, cur.until)
		}
		c.cursors[num] = cur
		out = append(out, cur)
	}
	return out, nil
}

// woken returns the cursors of the partitions that have grown, and new cursors for new partitions.
func (c *consumer) woken(ctx context.Context) ([]*cursor, error) {
	if err := ctx.Err(); err != nil {
		return nil, mainstem.Ended(ctx, "consume", time.Time{}, "")
	}
	var out []*cursor
	for _, tp := range c.waiter.Take() {
		out = append(out, c.cursors[tp.Partition])
	}
	if n := c.t.Partitions(); c.o.Partitions == nil && int(n) > len(c.cursors) {
		added, err := c.begin(ctx, count(int32(len(c.cursors)), n), FromStart())
		return append(out, added...), err
	}
	return out, nil
}

// round reads once from each cursor and returns those that may have more, in the memory of active.
func (c *consumer) round(ctx context.Context, active []*cursor, yield func(Record) bool) ([]*cursor, error) {
	more := active[:0]
	for _, cur := range active {
		if cur.next >= cur.until {
			continue
		}
		chunk, err := c.t.Read(ctx, cur.partition, cur.next, &partition.ReadOptions{MaxBytes: c.o.MaxBytes, Buffer: c.buf[:0]})
		if lost := new(OutOfRangeError); c.o.SkipLost && errors.As(err, &lost) && cur.next < lost.Start {
			cur.next = lost.Start
			more = append(more, cur)
			continue
		}
		if err != nil {
			return nil, err
		}
		c.buf = chunk.Data
		if err := c.consume(ctx, cur, chunk.Data, yield); err != nil {
			return nil, err
		}
		if cur.next = chunk.Next; len(chunk.Data) > 0 {
			more = append(more, cur)
		}
	}
	return more, nil
}

// consume yields the records of whole batches, data, that are in the range of the cursor.
func (c *consumer) consume(ctx context.Context, cur *cursor, data []byte, yield func(Record) bool) error {
	for len(data) > 0 {
		if len(data) < recordbatch.HeaderSize { // the value of a record of the log is longer than its batch
			_, err := recordbatch.Parse(data)
			return c.corrupt(cur, err)
		}
		size := 12 + int(binary.BigEndian.Uint32(data[8:]))
		if size > len(data) {
			size = len(data)
		}
		batch := data[:size]
		data = data[size:]
		h, err := recordbatch.Parse(batch)
		if err != nil {
			return c.corrupt(cur, err)
		}
		if h.Control() {
			continue
		}
		for r, err := range c.decoder.Records(batch, h.FirstOffset) {
			if unpack.NoRoom(err) {
				return err
			}
			if err != nil {
				return c.corrupt(cur, err)
			}
			if r.Offset < cur.next || r.Offset >= cur.until {
				continue
			}
			if !yield(consumed(cur.partition, r)) {
				return errStopped
			}
		}
		if err := ctx.Err(); err != nil {
			return mainstem.Ended(ctx, "consume", time.Time{}, "")
		}
	}
	return nil
}

func (c *consumer) corrupt(cur *cursor, err error) error {
	return &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "consume", Space: c.t.space, Key: partition.Key(cur.partition), Err: err}
}

// resolve returns the offsets at which to begin in the partitions nums, in their order.
func (f From) resolve(ctx context.Context, t *Topic, nums []int32) ([]int64, error) {
	var stored map[int32]Offset
	if f.kind == fromGroup {
		var err error
		if stored, err = t.Offsets(f.group).Load(ctx); err != nil {
			return nil, err
		}
	}
	out := make([]int64, len(nums))
	for i, num := range nums {
		var err error
		if off, ok := stored[num]; ok {
			out[i] = off.Next
			continue
		}
		if out[i], err = f.one(ctx, t, num); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// one is resolve for one partition. For fromGroup, the group has stored no offset there.
func (f From) one(ctx context.Context, t *Topic, num int32) (int64, error) {
	switch f.kind {
	case fromGroup:
		at, err := f.then.resolve(ctx, t, []int32{num})
		if err != nil {
			return 0, err
		}
		return at[0], nil
	case fromEnd:
		return t.End(ctx, num)
	case fromTime:
		found, ok, err := t.OffsetForTime(ctx, num, f.time)
		if err != nil || ok {
			return found.Offset, err
		}
		return t.End(ctx, num)
	case fromOffsets:
		if offset, ok := f.offsets[num]; ok {
			return offset, nil
		}
	}
	return t.Start(ctx, num)
}
