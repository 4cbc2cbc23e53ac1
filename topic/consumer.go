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

// From says where to begin to consume. The zero From is [FromStart].
type From struct {
	kind    fromKind
	time    time.Time
	offsets map[int32]int64
	group   string
	then    *From
}

type fromKind uint8

const (
	fromStart fromKind = iota
	fromEnd
	fromTime
	fromOffsets
	fromGroup
)

// FromStart begins with the first record that is there.
func FromStart() From { return From{} }

// FromEnd begins with the first record that comes.
func FromEnd() From { return From{kind: fromEnd} }

// FromTime begins in each partition with the first record whose timestamp is at or
// after t; at the end if there is none.
func FromTime(t time.Time) From { return From{kind: fromTime, time: t} }

// FromOffsets begins at the given offset of each partition; in partitions that
// are not given, at the start.
func FromOffsets(offsets map[int32]int64) From { return From{kind: fromOffsets, offsets: offsets} }

// FromGroup begins where a consumer group goes on, see [Topic.Offsets]; where it
// has no offset, as otherwise says.
func FromGroup(group string, otherwise From) From {
	return From{kind: fromGroup, group: group, then: &otherwise}
}

// ConsumeOptions says what [Topic.Consume] yields. nil and zero fields mean the
// defaults.
type ConsumeOptions struct {
	From       From    // default: the start
	Partitions []int32 // default: all, and with Follow those that are added later
	Follow     bool    // then wait for more; else end where the partitions ended at the call
	SkipLost   bool    // go on at the start where retention was faster than the consumer; default: an error
	MaxBytes   int     // how much is read of one partition at a time; default [partition.DefaultReadBytes]
}

// Consume yields records: in the order of offsets within a partition, in no
// order between partitions. It decompresses all codecs, checks every checksum and
// leaves out transaction markers; it yields what transactions wrote whether or
// not they were committed. A record is lent until the loop body returns: see
// [Record.Clone]. An error ends the sequence; cancelling ctx yields Canceled. The
// memory to decompress a batch is that of all consumers of the catalog, see
// [Options].Memory: Unavailable means that there was none for 10 s.
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

// errStopped ends a consumer whose caller has left the loop.
var errStopped = errors.New("stopped")

// consumer is one running Consume.
type consumer struct {
	t       *Topic
	o       ConsumeOptions
	cursors map[int32]*cursor
	waiter  *Waiter // nil unless following
	buf     []byte
	decoder recordbatch.Decoder
	memory  *unpack.Memory // of decoder
}

// keepWaiting is how much memory of the decoder a consumer keeps while it waits for records.
const keepWaiting = 1 << 20

// idle gives up much memory before the consumer waits.
func (c *consumer) idle() {
	if c.memory.Size() > keepWaiting {
		c.decoder.Reset()
		c.memory.Release()
	}
}

// cursor is the consumer's place in a partition.
type cursor struct {
	partition int32
	next      int64
	until     int64
}

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

// count returns the numbers from from on, below to.
func count(from, to int32) []int32 {
	var out []int32
	for ; from < to; from++ {
		out = append(out, from)
	}
	return out
}

// begin makes cursors for the partitions called nums.
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

// woken returns the cursors that may have more, those of new partitions included.
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

// round reads once from each cursor and returns those that may have more.
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

// consume yields the records of whole batches.
func (c *consumer) consume(ctx context.Context, cur *cursor, data []byte, yield func(Record) bool) error {
	for len(data) > 0 {
		size := 12 + int(binary.BigEndian.Uint32(data[8:])) // Read has seen that a header is there
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

// resolve returns the offsets at which to begin in the partitions called nums.
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

// one returns the offset at which to begin in one partition; for a group, in one
// of which it has stored none.
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
