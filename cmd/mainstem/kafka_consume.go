package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// kafkaReading is what topic consume is to read of a cluster.
type kafkaReading struct {
	from        string
	partitions  []int32 // nil: all
	follow      bool
	most        int64
	group       string
	uncommitted bool
	show        recordPrinter
}

// quiet is how long nothing may come before consume asks whether there is anything
// left that it will be shown.
const quiet = 500 * time.Millisecond

// kafkaConsume is topic consume for a cluster.
func (m *Main) kafkaConsume(cmd *cobra.Command, k *kafkaFlags, name string, r *kafkaReading) error {
	if r.group != "" && len(r.partitions) > 0 {
		return usageError{cmd, errors.New("--group and --partition exclude each other: the group shares out the partitions")}
	}
	isolation := kgo.ReadCommitted()
	if r.uncommitted {
		isolation = kgo.ReadUncommitted()
	}
	o := []kgo.Opt{kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(), kgo.FetchMaxWait(quiet / 2)}
	if r.group != "" {
		reset, err := resetTo(r.from, time.Now())
		if err != nil {
			return usageError{cmd, err}
		}
		o = append(o, kgo.ConsumerGroup(r.group), kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(reset),
			kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())
	}
	return m.withKafka(cmd, k, o, func(ctx context.Context, cl *kgo.Client) error {
		t, err := findTopic(ctx, cl, name)
		if err != nil {
			return err
		}
		c := &kafkaConsumer{m: m, cl: cl, r: r, topic: t}
		if !isTerminal(m.Stdout) { // else the records are all that a person needs to see
			c.meter = m.startMeter("consume "+name, 0)
		}
		if r.group != "" {
			err = c.member(ctx)
		} else {
			err = c.alone(ctx)
		}
		c.meter.finish()
		return m.ended(ctx, kafkaError(ctx, err))
	})
}

// resetTo returns what --from means for a group that was never anywhere.
func resetTo(from string, now time.Time) (kgo.Offset, error) {
	switch from {
	case "start":
		return kgo.NewOffset().AtStart(), nil
	case "end":
		return kgo.NewOffset().AtEnd(), nil
	}
	if n, err := strconv.ParseInt(from, 10, 64); err == nil && n >= 0 {
		return kgo.NewOffset().At(n), nil
	}
	if at, err := time.Parse(time.RFC3339, from); err == nil {
		return kgo.NewOffset().AfterMilli(at.UnixMilli()), nil
	}
	if d, err := time.ParseDuration(from); err == nil && d >= 0 {
		return kgo.NewOffset().AfterMilli(now.Add(-d).UnixMilli()), nil
	}
	_, err := parseFrom(from, nil, 0)
	return kgo.Offset{}, err
}

// kafkaConsumer shows the records of one topic.
type kafkaConsumer struct {
	m     *Main
	cl    *kgo.Client
	r     *kafkaReading
	topic *kafkaTopic
	meter *meter
	shown int64

	next, ends map[int32]int64 // by partition, where there is something left to show
}

// printed shows a record; it returns false when enough were shown.
func (c *kafkaConsumer) printed(r *kgo.Record) (more bool, err error) {
	if r.Attrs.IsControl() {
		return true, nil
	}
	rec := native(r)
	if err := c.r.show(c.topic.name, &rec); err != nil {
		return false, err
	}
	c.shown++
	c.meter.lines(c.shown)
	return c.shown != c.r.most, nil
}

// member reads as a member of the group until it is interrupted.
func (c *kafkaConsumer) member(ctx context.Context) error {
	for {
		fetches := c.cl.PollRecords(ctx, c.room())
		if err := firstError(ctx, fetches); err != nil {
			return err
		}
		done := []*kgo.Record{}
		more := true
		var err error
		for records := fetches.RecordIter(); more && err == nil && !records.Done(); {
			r := records.Next()
			if more, err = c.printed(r); err == nil {
				done = append(done, r)
			}
		}
		if ferr := c.m.flush(); err == nil {
			err = ferr
		}
		if err == nil { // what was shown is done, also if somebody interrupts now
			err = c.cl.CommitRecords(context.WithoutCancel(ctx), done...)
		}
		c.cl.AllowRebalance()
		if err != nil || !more {
			return err
		}
	}
}

// room is how many records may be polled at once.
func (c *kafkaConsumer) room() int {
	const poll = 10_000
	if c.r.most == 0 {
		return poll
	}
	return int(min(c.r.most-c.shown, poll))
}

// alone reads partitions from where --from says, to where they end now or, with
// --follow, for ever.
func (c *kafkaConsumer) alone(ctx context.Context) error {
	partitions := c.r.partitions
	if len(partitions) == 0 {
		partitions = c.topic.partitions()
	}
	for _, p := range partitions {
		if err := c.topic.has(p); err != nil {
			return err
		}
	}
	if err := c.plan(ctx, partitions); err != nil {
		return err
	}
	return c.read(ctx)
}

// read shows what was planned.
func (c *kafkaConsumer) read(ctx context.Context) error {
	from := map[int32]kgo.Offset{}
	for p, next := range c.next {
		from[p] = kgo.NewOffset().At(next)
	}
	c.cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{c.topic.name: from})
	for c.r.follow || len(c.next) > 0 {
		more, err := c.poll(ctx)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// plan finds out where to begin and, unless it is to follow, where to end.
func (c *kafkaConsumer) plan(ctx context.Context, partitions []int32) (err error) {
	committed := !c.r.uncommitted
	if c.ends, err = listOffsets(ctx, c.cl, c.topic, partitions, atEnd, committed); err != nil {
		return err
	}
	if c.next, err = c.begin(ctx, partitions, committed); err != nil {
		return err
	}
	for p, next := range c.next {
		if next < 0 { // nothing is that late
			c.next[p] = c.ends[p]
		}
		if !c.r.follow && c.next[p] >= c.ends[p] {
			delete(c.next, p)
		}
	}
	return nil
}

func (c *kafkaConsumer) begin(ctx context.Context, partitions []int32, committed bool) (map[int32]int64, error) {
	at := func(ms int64) (map[int32]int64, error) {
		return listOffsets(ctx, c.cl, c.topic, partitions, ms, committed)
	}
	switch c.r.from {
	case "start":
		return at(atStart)
	case "end":
		return at(atEnd)
	}
	if n, err := strconv.ParseInt(c.r.from, 10, 64); err == nil {
		out := map[int32]int64{}
		for _, p := range partitions {
			out[p] = n
		}
		return out, nil
	}
	if when, err := time.Parse(time.RFC3339, c.r.from); err == nil {
		return at(when.UnixMilli())
	}
	d, err := time.ParseDuration(c.r.from)
	if err != nil {
		return nil, err
	}
	return at(time.Now().Add(-d).UnixMilli())
}

// poll shows what came; it returns false when enough was shown.
func (c *kafkaConsumer) poll(ctx context.Context) (more bool, err error) {
	limit, cancel := ctx, context.CancelFunc(func() {})
	if !c.r.follow {
		limit, cancel = context.WithTimeout(ctx, quiet)
	}
	defer cancel()
	fetches := c.cl.PollRecords(limit, c.room())
	if ctx.Err() == nil && limit.Err() != nil && fetches.Empty() {
		return true, c.lookAhead(ctx)
	}
	if err := firstError(limit, fetches); err != nil && (ctx.Err() != nil || limit.Err() == nil) {
		return false, err
	}
	for records := fetches.RecordIter(); !records.Done(); {
		r := records.Next()
		if !c.r.follow {
			if r.Offset >= c.ends[r.Partition] { // it came later
				c.finish(r.Partition)
				continue
			}
			if c.next[r.Partition] = r.Offset + 1; r.Offset+1 == c.ends[r.Partition] {
				c.finish(r.Partition)
			}
		}
		if more, err := c.printed(r); err != nil || !more {
			return false, err
		}
	}
	if c.r.follow {
		return true, c.m.flush()
	}
	return true, nil
}

func (c *kafkaConsumer) finish(partition int32) {
	delete(c.next, partition)
	c.cl.PauseFetchPartitions(map[string][]int32{c.topic.name: {partition}})
}

func firstError(ctx context.Context, fetches kgo.Fetches) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	errs := fetches.Errors()
	switch {
	case len(errs) == 0:
		return nil
	case errs[0].Topic == "":
		return errs[0].Err
	}
	return fmt.Errorf("%s/%d: %w", errs[0].Topic, errs[0].Partition, errs[0].Err)
}

// lookAhead finds the partitions whose last offsets have no records any more, because
// they were compacted away or deleted, so that nobody waits for them.
func (c *kafkaConsumer) lookAhead(ctx context.Context) error {
	for p := range c.next {
		for c.next[p] < c.ends[p] {
			next, records, err := c.peek(ctx, p)
			if err != nil {
				return err
			}
			if records {
				break // they will come
			}
			if next <= c.next[p] { // there is nothing at all
				next = c.ends[p]
			}
			c.next[p] = next
		}
		if c.next[p] >= c.ends[p] {
			c.finish(p)
		}
	}
	return nil
}

// peek fetches at the place where a partition stands and returns where what it got
// ends, and whether there are records in it.
func (c *kafkaConsumer) peek(ctx context.Context, partition int32) (next int64, records bool, err error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MaxWaitMillis = 1<<20, 0
	if !c.r.uncommitted {
		req.IsolationLevel = 1
	}
	one := kmsg.NewFetchRequestTopic()
	one.Topic, one.TopicID = c.topic.name, c.topic.id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, c.next[partition], 1<<20
	one.Partitions = append(one.Partitions, p)
	req.Topics = append(req.Topics, one)
	resp, err := c.cl.Broker(int(c.topic.leaders[partition])).RetriableRequest(ctx, req)
	if err != nil {
		return 0, false, err
	}
	for _, t := range resp.(*kmsg.FetchResponse).Topics {
		for _, got := range t.Partitions {
			if err := codeError(fmt.Sprintf("fetch %s/%d", c.topic.name, partition), got.ErrorCode, nil); err != nil {
				return 0, false, err
			}
			next, records = span(got.RecordBatches, c.next[partition])
		}
	}
	return next, records, nil
}

// span returns the offset behind the batches in data, and whether they may hold
// records at or behind from.
func span(data []byte, from int64) (next int64, records bool) {
	const lengthPrefix = 12
	for len(data) >= recordbatch.HeaderSize {
		n := lengthPrefix + int(int32(binary.BigEndian.Uint32(data[8:])))
		if n < recordbatch.HeaderSize || n > len(data) {
			return next, true // it is cut off or not a batch: for the consumer to judge
		}
		b, err := recordbatch.Parse(data[:n])
		if err != nil {
			return next, true
		}
		next = b.FirstOffset + int64(b.LastOffsetDelta) + 1
		records = records || b.NumRecords > 0 && next > from
		data = data[n:]
	}
	return next, records
}
