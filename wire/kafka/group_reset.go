package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/group"
)

// A reset has two steps, so that an operator can see it before it happens. PlanReset reads the
// group and computes the new offsets. Commit writes them in one commit, with the condition that
// the stored group is as PlanReset has read it: a consumer that has joined since makes it fail.

// ResetTo is the target of a reset: where the group continues in each partition. Make one with
// [ResetToEarliest] and the functions beside it.
type ResetTo struct {
	kind resetKind
	n    int64
	at   time.Time
}

type resetKind int

const (
	toEarliest resetKind = iota
	toLatest
	toOffset
	byOffsets
	toTime
)

// ResetToEarliest is the start of the partition: the first offset that can be read.
func ResetToEarliest() ResetTo { return ResetTo{kind: toEarliest} }

// ResetToLatest is the end of the partition: the group reads only records that come later.
func ResetToLatest() ResetTo { return ResetTo{kind: toLatest} }

// ResetToOffset is offset n, or the nearest in a partition in which n is out of range.
func ResetToOffset(n int64) ResetTo { return ResetTo{kind: toOffset, n: n} }

// ResetBy is n offsets after the stored offset of the group, or before it if n is negative; the
// nearest offset in a partition in which that is out of range.
func ResetBy(n int64) ResetTo { return ResetTo{kind: byOffsets, n: n} }

// ResetToTime is the first record whose timestamp is at or after at, or the end of a partition
// that has none.
func ResetToTime(at time.Time) ResetTo { return ResetTo{kind: toTime, at: at} }

// ResetScope is the partitions in which a group is reset: those of both fields together.
type ResetScope struct {
	// Topics has partitions by topic name; no partitions means all of the topic.
	Topics map[string][]int32
	// AllTopics selects every partition in which the group has a stored offset.
	AllTopics bool
}

// ResetPlan is the changes of a reset, made by [Groups.PlanReset].
type ResetPlan struct {
	Group   string
	Offsets []ResetOffset // by topic and partition

	state *group.Stored // the condition of Commit
	fresh bool          // the group has no stored offset
	log   mainstem.Log
}

// ResetOffset is the new offset of a group in a partition.
type ResetOffset struct {
	Topic     string
	Partition int32
	Old       int64 // the stored offset; -1 if there is none
	New       int64
	Clamped   bool // the offset asked for is out of range: New is the nearest one

	src partition.Reader
}

// PlanReset computes a reset and changes nothing. A group that does not exist is one without
// stored offsets. The error is Conflict while the group has members, NotFound for a topic or
// partition that does not exist, and Invalid for [ResetBy] in a partition without a stored offset.
func (g *Groups) PlanReset(ctx context.Context, name string, scope ResetScope, to ResetTo) (*ResetPlan, error) {
	state, err := group.Look(ctx, g.s.log, serverTopics{g.s}, name)
	if err == nil {
		err = state.Inactive()
	}
	if err != nil {
		return nil, err
	}
	stored, err := g.stored(ctx, name)
	if err != nil {
		return nil, err
	}
	chosen, err := g.chosen(ctx, scope, stored)
	if err != nil {
		return nil, err
	}
	plan := &ResetPlan{Group: name, state: state, fresh: len(stored) == 0, log: g.s.log}
	for _, p := range sortedPartitions(chosen) {
		o := ResetOffset{Topic: p.topic, Partition: p.num, Old: -1, src: chosen[p]}
		if next, ok := stored[p]; ok {
			o.Old = next
		}
		if err := o.find(ctx, to); err != nil {
			return nil, err
		}
		plan.Offsets = append(plan.Offsets, o)
	}
	return plan, nil
}

// chosen returns the partitions of a scope with their readers. stored has the group's offsets.
func (g *Groups) chosen(ctx context.Context, scope ResetScope, stored map[topicPartition]int64) (map[topicPartition]partition.Reader, error) {
	out := map[topicPartition]partition.Reader{}
	if scope.AllTopics {
		for p := range stored {
			src, err := g.s.source(ctx, p.topic, topic.ID{})
			if err != nil {
				return nil, err
			}
			out[p] = src
		}
	}
	for name, partitions := range scope.Topics {
		src, err := g.s.source(ctx, name, topic.ID{})
		if err != nil {
			return nil, fmt.Errorf("topic %q: %w", name, err)
		}
		if len(partitions) == 0 {
			for n := range src.Partitions() {
				partitions = append(partitions, n)
			}
		}
		for _, n := range partitions {
			if n < 0 || n >= src.Partitions() {
				return nil, mainstem.Refusef(mainstem.KindNotFound, "reset", "topic %s has no partition %d: it has %d", name, n, src.Partitions())
			}
			out[topicPartition{name, n}] = src
		}
	}
	return out, nil
}

// find sets New and Clamped. The offset is kept between the start and the end of the partition.
func (o *ResetOffset) find(ctx context.Context, to ResetTo) error {
	start, err := o.src.Start(ctx, o.Partition)
	if err != nil {
		return err
	}
	end, err := o.src.End(ctx, o.Partition)
	if err != nil {
		return err
	}
	end = max(start, end)
	want := start
	switch to.kind {
	case toLatest:
		want = end
	case toOffset:
		want = to.n
	case byOffsets:
		if o.Old < 0 {
			return mainstem.Refusef(mainstem.KindInvalid, "reset", "%s/%d cannot be moved by %d: the group has no offset there", o.Topic, o.Partition, to.n)
		}
		want = o.Old + to.n
		if to.n > 0 && want < o.Old { // overflow
			want = math.MaxInt64
		}
	case toTime:
		found, ok, err := o.src.OffsetForTime(ctx, o.Partition, to.at)
		if err != nil {
			return err
		}
		if want = end; ok {
			want = found.Offset
		}
	}
	o.New = min(max(want, start), end)
	o.Clamped = o.New != want
	return nil
}

// Commit stores the new offsets in one commit, with the durability of the log. It fails with
// Conflict, and changes nothing, if a consumer has joined the group since the plan was made.
// Without Offsets it does nothing.
func (p *ResetPlan) Commit(ctx context.Context) error {
	if len(p.Offsets) == 0 {
		return nil
	}
	b := mainstem.NewBatch()
	p.state.UnchangedTo(b)
	if p.fresh && p.state.New() {
		p.state.CreateTo(b, time.Now())
	}
	for i := range p.Offsets {
		o := &p.Offsets[i]
		next := partition.Offset{Next: o.New, LeaderEpoch: -1}
		if t, ok := o.src.(*topic.Topic); ok {
			t.Offsets(p.Group).CommitOffsetTo(b, o.Partition, next)
		} else {
			partition.NewOffsets(p.log, p.Group, o.Topic, o.src.ID()).CommitOffsetTo(b, o.Partition, next)
		}
	}
	_, err := p.log.Commit(ctx, b)
	return p.state.Changed(err)
}

func sortedPartitions[V any](m map[topicPartition]V) []topicPartition {
	return slices.SortedFunc(maps.Keys(m), byPartition)
}

// isGone returns whether err says that a topic or partition does not exist, or that no topic can
// have the name.
func isGone(err error) bool {
	return errors.Is(err, mainstem.ErrNotFound) || errors.Is(err, mainstem.ErrInvalid)
}
