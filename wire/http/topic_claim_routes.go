package viewhttp

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// recordClaimRequest asks for records.
type recordClaimRequest struct {
	claimRequest
	MessageTimeout string `json:"messageTimeout,omitempty"`
}

// claimedRecord is a record that was handed out, in JSON.
type claimedRecord struct {
	Token   string      `json:"token"`
	Attempt int         `json:"attempt"`
	Record  topicRecord `json:"record"`
}

// topicGroup returns the group of the path.
func (c *call) topicGroup() (*topicGroup, error) {
	t, err := c.topicOf()
	if err == nil {
		err = partition.ValidateGroup(c.path["group"])
	}
	return &topicGroup{c.h, t, c.path["group"]}, err
}

func postGroupClaim(c *call) error {
	g, err := c.topicGroup()
	if err != nil {
		return err
	}
	as, err := c.as()
	if err != nil {
		return err
	}
	var q recordClaimRequest
	if _, err := c.readJSON(&q); err != nil {
		return err
	}
	wait, err := q.check()
	if err != nil {
		return err
	}
	timeout := defaultMessageTimeout
	if q.MessageTimeout != "" {
		if timeout, err = parseMessageTimeout(q.MessageTimeout); err != nil {
			return err
		}
	}
	ctx, stop := c.untilStopped()
	defer stop()
	got, err := g.claimWaiting(ctx, q.Consumer, q.Max, timeout, wait)
	if err != nil {
		return err
	}
	size := 0
	for i := range got {
		size += sizeOfRecord(&got[i].record)
	}
	if err := c.reserve(frameCopies * int64(size)); err != nil {
		return err // the records come again after the message timeout
	}
	out := []claimedRecord{}
	for i := range got {
		out = append(out, claimedRecord{got[i].token.String(), got[i].token.attempt, recordOf(&got[i].record, as)})
	}
	return c.answer(http.StatusOK, map[string][]claimedRecord{"records": out})
}

// handedOut is a record with the token of its attempt.
type handedOut struct {
	record topic.Record
	token  recordToken
}

// claimWaiting claims records, and waits until there is one, as long as wait at the most.
func (g *topicGroup) claimWaiting(ctx context.Context, consumer string, limit int, timeout, wait time.Duration) ([]handedOut, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for n := 1; ; n++ {
		got, err := g.claim(ctx, consumer, limit, timeout)
		if err != nil || len(got) > 0 || wait <= 0 || !askingRecords.Wait(waiting, n) {
			return got, err
		}
	}
}

// claim hands at most limit records, and about recordClaimBytes, to a consumer: in each partition
// those that came back, then those that were never handed out.
func (g *topicGroup) claim(ctx context.Context, consumer string, limit int, timeout time.Duration) (got []handedOut, err error) {
	err = g.change(ctx, func(s *groupState) error {
		now := time.Now()
		a := assignment{state: s, consumer: consumer, limit: limit, deadline: now.Add(timeout).UnixNano()}
		for _, p := range s.Parts {
			p.expire(now)
			a.entries += len(p.Entries)
		}
		for num := range g.topic.Partitions() {
			if err := a.again(ctx, g.topic, num); err != nil {
				return err
			}
		}
		for num := range g.topic.Partitions() {
			if err := a.more(ctx, g.topic, num); err != nil {
				return err
			}
		}
		if got = a.got; len(got) == 0 {
			return errUnchanged
		}
		return nil
	})
	return got, err
}

// assignment is one claim in the making.
type assignment struct {
	state    *groupState
	consumer string
	limit    int
	deadline int64
	entries  int // of the state
	size     int // bytes of got, about
	got      []handedOut
}

func (a *assignment) full() bool { return len(a.got) == a.limit || a.size >= recordClaimBytes }

// give hands out a record, whose entry is e.
func (a *assignment) give(e *recordClaim, r topic.Record) {
	e.Attempt++
	e.Consumer, e.Deadline = a.consumer, a.deadline
	a.got = append(a.got, handedOut{r, recordToken{a.state.Epoch, r.Partition, r.Offset, e.Attempt}})
	a.size += sizeOfRecord(&r)
}

// again hands out the records of a partition that wait. Those that compaction has removed are done.
func (a *assignment) again(ctx context.Context, t *topic.Topic, num int32) error {
	p := a.state.Parts[num]
	var removed []int64
	for i := range p.Entries {
		e := &p.Entries[i]
		if e.Consumer != "" || a.full() {
			continue
		}
		there := false
		for r, err := range recordsFrom(ctx, t, num, e.Offset) {
			if err != nil {
				return err
			}
			if there = r.Offset == e.Offset; there {
				a.give(e, r.Clone())
			}
			break
		}
		if !there {
			removed = append(removed, e.Offset)
		}
	}
	p.Entries = slices.DeleteFunc(p.Entries, func(e recordClaim) bool { return slices.Contains(removed, e.Offset) })
	return nil
}

// more hands out records of a partition that were never handed out.
func (a *assignment) more(ctx context.Context, t *topic.Topic, num int32) error {
	if a.full() || a.entries == maxRecordClaims {
		return nil
	}
	p := a.state.Parts[num]
	for r, err := range recordsFrom(ctx, t, num, p.Read) {
		if err != nil {
			return err
		}
		e := recordClaim{Offset: r.Offset}
		a.give(&e, r.Clone())
		p.Entries, p.Read = append(p.Entries, e), r.Offset+1
		if a.entries++; a.full() || a.entries == maxRecordClaims {
			break
		}
	}
	return nil
}

func recordsFrom(ctx context.Context, t *topic.Topic, num int32, offset int64) iter.Seq2[topic.Record, error] {
	o := topic.ConsumeOptions{Partitions: []int32{num}, From: topic.FromOffsets(map[int32]int64{num: offset}), SkipLost: true}
	return t.Consume(ctx, &o)
}

func postGroupAck(c *call) error {
	var q ackRequest
	if _, err := c.readJSON(&q); err != nil {
		return err
	}
	return c.endRecordClaims(q.Tokens, false)
}

// recordNack gives records back.
type recordNack struct {
	Tokens []string `json:"tokens"`
	Action string   `json:"action"`
}

func postGroupNack(c *call) error {
	var q recordNack
	if _, err := c.readJSON(&q); err != nil {
		return err
	}
	if q.Action != "retry" && q.Action != "skip" {
		return invalid("action is %.40q: want retry or skip", q.Action)
	}
	return c.endRecordClaims(q.Tokens, q.Action == "retry")
}

// endRecordClaims ends the claims of tokens: the records are done, or with again wait.
func (c *call) endRecordClaims(texts []string, again bool) error {
	g, err := c.topicGroup()
	if err != nil {
		return err
	}
	if len(texts) == 0 || len(texts) > maxRecordClaims {
		return invalid("there are %d tokens: want 1 to %d", len(texts), maxRecordClaims)
	}
	tokens := make([]recordToken, len(texts))
	for i, text := range texts {
		if tokens[i], err = parseRecordToken(text); err != nil {
			return err
		}
	}
	err = g.change(c.ctx, func(s *groupState) error { return s.end(tokens, again) })
	if err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
