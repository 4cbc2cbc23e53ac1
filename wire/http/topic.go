package viewhttp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

// topicOf returns the topic of the path.
func (c *call) topicOf() (*topic.Topic, error) { return c.h.topics.Topic(c.ctx, c.path["topic"]) }

// topicHeader is a header of a record in JSON.
type topicHeader struct {
	Name string `json:"name"`
	value
}

// newRecord is a record to publish, in JSON. Without a value it is a tombstone.
type newRecord struct {
	name
	value
	Partition *int32        `json:"partition,omitempty"`
	Time      *time.Time    `json:"time,omitempty"`
	Headers   []topicHeader `json:"headers,omitempty"`
}

// topicRecord is a record of a topic in JSON.
type topicRecord struct {
	Offset counter `json:"offset"`
	newRecord
}

// record returns what is to be published.
func (n *newRecord) record() (topic.Record, error) {
	out := topic.Record{}
	if n.Key != nil || n.Key64 != nil {
		key, err := n.text()
		if err != nil {
			return out, err
		}
		out.Key = []byte(key)
	}
	if n.JSON != nil || n.Text != nil || n.Base64 != nil {
		data, err := n.bytes("a record")
		if err != nil {
			return out, err
		}
		out.Value = data
	}
	if n.Time != nil {
		out.Time = *n.Time
	}
	for i := range n.Headers {
		h := topic.Header{Key: n.Headers[i].Name}
		if v := &n.Headers[i].value; v.JSON != nil || v.Text != nil || v.Base64 != nil {
			data, err := v.bytes("a header")
			if err != nil {
				return out, err
			}
			h.Value = data
		}
		out.Headers = append(out.Headers, h)
	}
	return out, nil
}

// recordOf shows a record.
func recordOf(r *topic.Record, as form) topicRecord {
	out := topicRecord{Offset: counter(r.Offset), newRecord: newRecord{Partition: &r.Partition, Time: timeOf(r.Time)}}
	if r.Key != nil {
		out.name = nameOf(string(r.Key))
	}
	if r.Value != nil {
		out.value = valueOf(r.Value, as)
	}
	for _, h := range r.Headers {
		shown := topicHeader{Name: h.Key}
		if h.Value != nil {
			shown.value = valueOf(h.Value, asText)
		}
		out.Headers = append(out.Headers, shown)
	}
	return out
}

func sizeOfRecord(r *topic.Record) int {
	n := len(r.Key) + len(r.Value) + 128
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// publishTo adds records to a batch: those that name a partition there, the others by their
// keys. It returns a part of the plan, see [plan].
func publishTo(b *mainstem.Batch, t *topic.Topic, list []newRecord) (part, error) {
	first := b.Len()
	var free []topic.Record
	fixed := map[int32][]topic.Record{}
	for i := range list {
		r, err := list[i].record()
		if err != nil {
			return part{}, invalid("record %d: %w", i, err)
		}
		if p := list[i].Partition; p != nil {
			fixed[*p] = append(fixed[*p], r)
		} else {
			free = append(free, r)
		}
	}
	if len(free) > 0 {
		t.PublishTo(b, free...)
	}
	for _, num := range slices.Sorted(maps.Keys(fixed)) {
		t.PublishPartitionTo(b, num, fixed[num]...)
	}
	return recordsPart(b, first, topic.Space(t.Name())), nil
}

func postTopic(c *call) error {
	list, who, err := readList[newRecord](c, c.h.o.Limits.MaxBatchWrites-1)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return invalid("the array is empty: want at least one record")
	}
	r, memo, err := c.publish(list, who)
	if err != nil {
		return err
	}
	var p part
	if err := json.Unmarshal(memo, &p); err != nil {
		return mainstem.Errorf(mainstem.KindCorrupt, "http", "a remembered plan: %w", err)
	}
	out := p.result(r)
	out.Duplicate = &r.Duplicate
	return c.answer(http.StatusCreated, out)
}

// publish publishes records to the topic of the path. Its memo is the plan.
func (c *call) publish(list []newRecord, who identity) (mainstem.Receipt, json.RawMessage, error) {
	t, err := c.topicOf()
	if err != nil {
		return c.made(who, err)
	}
	b := mainstem.NewBatch()
	p, err := publishTo(b, t, list)
	if err != nil {
		return mainstem.Receipt{}, nil, err
	}
	memo, err := json.Marshal(p)
	if err != nil {
		return mainstem.Receipt{}, nil, mainstem.Refusef(mainstem.KindInternal, "http", "encode a plan: %w", err)
	}
	return c.commit(b, who, memo)
}

// topicSpec is what a topic is to be, in JSON.
type topicSpec struct {
	Partitions int32             `json:"partitions,omitempty"`
	Config     map[string]string `json:"config,omitempty"`
}

func putTopic(c *call) error {
	var q topicSpec
	if _, err := c.readJSON(&q); err != nil {
		return err
	}
	if _, err := c.h.topics.Ensure(c.ctx, c.path["topic"], topic.Spec{Partitions: q.Partitions, Config: q.Config}); err != nil {
		return err
	}
	return c.describeTopic()
}

func deleteTopic(c *call) error {
	if err := c.h.topics.Delete(c.ctx, c.path["topic"]); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func getTopics(c *call) error {
	names := []string{}
	for t, err := range c.h.topics.All(c.ctx) {
		if err != nil {
			return err
		}
		names = append(names, t.Name())
	}
	return c.answer(http.StatusOK, map[string][]string{"topics": names})
}

// topicInfo describes a topic in JSON.
type topicInfo struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Config     map[string]string `json:"config"`
	Partitions []partitionInfo   `json:"partitions"`
}

// partitionInfo is what one partition holds, in JSON.
type partitionInfo struct {
	Partition int32   `json:"partition"`
	Start     counter `json:"start"`
	End       counter `json:"end"`
	Bytes     counter `json:"bytes"`
}

func getPartitions(c *call) error { return c.describeTopic() }

func (c *call) describeTopic() error {
	d, err := c.h.topics.Describe(c.ctx, c.path["topic"])
	if err != nil {
		return err
	}
	out := topicInfo{Name: d.Name, ID: d.ID.String(), Config: d.Config, Partitions: []partitionInfo{}}
	if out.Config == nil {
		out.Config = map[string]string{}
	}
	for i, p := range d.Partitions {
		out.Partitions = append(out.Partitions, partitionInfo{int32(i), counter(p.Start), counter(p.End), counter(p.Bytes)})
	}
	return c.answer(http.StatusOK, out)
}

// partitions reads which partitions are asked for; nil means all.
func (c *call) partitions(t *topic.Topic) ([]int32, error) {
	var out []int32
	for _, text := range c.query["partition"] {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return nil, invalid("the parameter partition is %.40q: want a number from 0 on", text)
		}
		if n >= uint64(t.Partitions()) {
			return nil, refuse(http.StatusNotFound, mainstem.KindNotFound, "the topic %s has no partition %d: it has %d", t.Name(), n, t.Partitions())
		}
		if !slices.Contains(out, int32(n)) {
			out = append(out, int32(n))
		}
	}
	return out, nil
}

// lost gives an offset that retention has removed its status.
func lost(err error) error {
	var e *topic.OutOfRangeError
	if errors.As(err, &e) && e.Offset < e.Start {
		return withStatus(http.StatusGone, err)
	}
	return err
}

func getTopic(c *call) error {
	t, err := c.topicOf()
	if err != nil {
		return err
	}
	nums, err := c.partitions(t)
	if err != nil {
		return err
	}
	as, err := c.as()
	if err != nil {
		return err
	}
	if c.accepts(mediaEvents) {
		return followTopic(c, t, nums, as)
	}
	if len(nums) > 1 {
		return invalid("%d partitions are named: a page is of one", len(nums))
	}
	if len(nums) == 0 {
		nums = []int32{0}
	}
	limit, err := c.limit()
	if err != nil {
		return err
	}
	next, err := c.firstOffset(t, nums[0])
	if err != nil {
		return err
	}
	p := page{c: c, limit: limit}
	o := topic.ConsumeOptions{Partitions: nums, From: topic.FromOffsets(map[int32]int64{nums[0]: next})}
	for r, err := range t.Consume(c.ctx, &o) {
		if err != nil {
			return lost(err)
		}
		more, err := p.add(recordOf(&r, as), sizeOfRecord(&r))
		if err != nil {
			return err
		}
		if !more {
			break
		}
		next = r.Offset + 1
	}
	end, err := t.End(c.ctx, nums[0])
	if err != nil {
		return err
	}
	return p.send("records", map[string]any{"next": counter(next), "end": counter(end)})
}

// firstOffset reads where in a partition a page or a follower begins: at the start if nothing
// says where.
func (c *call) firstOffset(t *topic.Topic, num int32) (int64, error) {
	if c.query.Has("offset") {
		n, err := c.number("offset")
		return int64(n), err
	}
	return t.Start(c.ctx, num)
}

// followTopic follows the records of partitions. The id of an event says for every partition
// that was read which offset is next: 0:17,1:4.
func followTopic(c *call, t *topic.Topic, nums []int32, as form) error {
	offsets, err := c.topicOffsets(t, nums)
	if err != nil {
		return err
	}
	if err := c.followable(t, offsets); err != nil {
		return err
	}
	return c.stream(mediaEvents, func(ctx context.Context, send func(frame) error) error {
		o := topic.ConsumeOptions{Partitions: nums, From: topic.FromOffsets(offsets), Follow: true}
		for r, err := range t.Consume(ctx, &o) {
			if err != nil {
				return lost(err)
			}
			before, known := offsets[r.Partition]
			offsets[r.Partition] = r.Offset + 1
			if err := send(frame{id: offsetsID(offsets), event: "record", data: recordOf(&r, as), size: sizeOfRecord(&r)}); err != nil {
				if offsets[r.Partition] = before; !known {
					delete(offsets, r.Partition)
				}
				return err
			}
		}
		return nil
	})
}

// followable returns nil if a follower of a topic may go on at these offsets, else the answer 410:
// records were removed, or the topic is another one by now.
func (c *call) followable(t *topic.Topic, offsets map[int32]int64) error {
	ends, err := t.Ends(c.ctx)
	if err != nil {
		return err
	}
	for num, next := range offsets {
		if int(num) >= len(ends) {
			return topicGone("partition %d is gone: there are %d", num, len(ends))
		}
		start, err := t.Start(c.ctx, num)
		if err != nil {
			return err
		}
		if next < start || next > ends[num] {
			return topicGone("offset %d of partition %d is gone: it starts at %d and ends at %d", next, num, start, ends[num])
		}
	}
	return nil
}

// topicGone is the answer to a follower of a topic that cannot go on where it left.
func topicGone(why string, args ...any) error {
	e := mainstem.Errorf(mainstem.KindNotFound, "follow", why, args...)
	return withStatus(http.StatusGone, e.WithHint("begin anew, without "+headerLastID))
}

// topicOffsets returns where a follower begins in each partition.
func (c *call) topicOffsets(t *topic.Topic, nums []int32) (map[int32]int64, error) {
	if c.query.Has("limit") {
		return nil, invalid("a follower does not take the parameter limit")
	}
	if id := c.r.Header.Get(headerLastID); id != "" {
		return parseOffsetsID(id)
	}
	all := nums
	if all == nil {
		for i := range t.Partitions() {
			all = append(all, i)
		}
	}
	if c.query.Has("offset") && len(all) != 1 {
		return nil, invalid("the parameter offset is of one partition: name it")
	}
	offsets := map[int32]int64{}
	fromEnd, err := c.flag("fromEnd")
	if err != nil {
		return nil, err
	}
	for _, num := range all {
		if fromEnd {
			offsets[num], err = t.End(c.ctx, num)
		} else {
			offsets[num], err = c.firstOffset(t, num)
		}
		if err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

// offsetsID is the id of an event of a topic.
func offsetsID(offsets map[int32]int64) string {
	var b strings.Builder
	for i, num := range slices.Sorted(maps.Keys(offsets)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(num)) + ":" + strconv.FormatInt(offsets[num], 10))
	}
	return b.String()
}

// parseOffsetsID reads the id of an event of a topic.
func parseOffsetsID(id string) (map[int32]int64, error) {
	offsets := map[int32]int64{}
	for part := range strings.SplitSeq(id, ",") {
		num, next, _ := strings.Cut(part, ":")
		p, perr := strconv.ParseInt(num, 10, 32)
		o, oerr := strconv.ParseInt(next, 10, 64)
		if perr != nil || oerr != nil || p < 0 || o < 0 {
			return nil, invalid("%s is %.60q: want the id of an event of this topic, such as 0:17,1:4", headerLastID, id)
		}
		offsets[int32(p)] = o
	}
	return offsets, nil
}

// groupOffset is where a consumer group goes on in a partition, in JSON.
type groupOffset struct {
	Partition int32   `json:"partition"`
	Offset    counter `json:"offset"`
}

func getGroup(c *call) error {
	t, err := c.topicOf()
	if err != nil {
		return err
	}
	stored, err := t.Offsets(c.path["group"]).Load(c.ctx)
	if err != nil {
		return err
	}
	out := []groupOffset{}
	for _, num := range slices.Sorted(maps.Keys(stored)) {
		out = append(out, groupOffset{num, counter(stored[num].Next)})
	}
	return c.answer(http.StatusOK, map[string][]groupOffset{"offsets": out})
}

func putGroup(c *call) error {
	list, who, err := readList[groupOffset](c, topic.MaxPartitions)
	if err != nil {
		return err
	}
	b := mainstem.NewBatch()
	t, err := c.topicOf()
	if err != nil {
		b.Fail(err)
		list = nil
	}
	for _, o := range list {
		t.Offsets(c.path["group"]).CommitTo(b, o.Partition, int64(o.Offset))
	}
	if _, _, err := c.commit(b, who, nil); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
