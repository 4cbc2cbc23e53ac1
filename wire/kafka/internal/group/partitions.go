package group

import (
	"bytes"
	"maps"
	"slices"

	"github.com/mainstemdev/mainstem/topic"
)

// partitions is a set of partitions of topics. It is not changed after it was stored in a member.
//
// Invariant: the numbers of each topic are ascending without duplicates, and no topic has none.
type partitions map[topic.ID][]int32

// slot is one partition.
type slot struct {
	id        topic.ID
	partition int32
}

func (p partitions) len() int {
	n := 0
	for _, nums := range p {
		n += len(nums)
	}
	return n
}

func (p partitions) has(s slot) bool {
	_, ok := slices.BinarySearch(p[s.id], s.partition)
	return ok
}

// each yields the partitions in the order of topic IDs and numbers.
func (p partitions) each(yield func(slot) bool) {
	for _, id := range p.ids() {
		for _, n := range p[id] {
			if !yield(slot{id, n}) {
				return
			}
		}
	}
}

func (p partitions) ids() []topic.ID {
	return slices.SortedFunc(maps.Keys(p), compareIDs)
}

func compareIDs(a, b topic.ID) int { return bytes.Compare(a[:], b[:]) }

func (p partitions) equal(q partitions) bool {
	return maps.EqualFunc(p, q, func(a, b []int32) bool { return slices.Equal(a, b) })
}

// filter returns the partitions for which keep is true.
func (p partitions) filter(keep func(slot) bool) partitions {
	out := partitions{}
	for id, nums := range p {
		var kept []int32
		for _, n := range nums {
			if keep(slot{id, n}) {
				kept = append(kept, n)
			}
		}
		if kept != nil {
			out[id] = kept
		}
	}
	return out
}

// and returns the partitions that are in both sets.
func (p partitions) and(q partitions) partitions { return p.filter(q.has) }

// minus returns the partitions of p that are not in q.
func (p partitions) minus(q partitions) partitions {
	return p.filter(func(s slot) bool { return !q.has(s) })
}

// or returns the partitions that are in either set.
func (p partitions) or(q partitions) partitions {
	out := maps.Clone(p)
	if out == nil {
		out = partitions{}
	}
	for id, nums := range q {
		all := slices.Concat(out[id], nums)
		slices.Sort(all)
		out[id] = slices.Compact(all)
	}
	return out
}

// overlaps reports whether the sets share a partition.
func (p partitions) overlaps(q partitions) bool { return len(p.and(q)) > 0 }

// owners is the member that owns each partition, nil if it is free: one slice for each topic,
// indexed by the number of the partition. Partitions beyond the slice are free.
type owners map[topic.ID][]*member

// free reports whether a partition has no owner.
func (o owners) free(s slot) bool {
	of := o[s.id]
	return int(s.partition) >= len(of) || of[s.partition] == nil
}

// give makes m the owner of partitions.
func (o owners) give(p partitions, m *member) {
	for id, nums := range p {
		of := o[id]
		if last := int(nums[len(nums)-1]); last >= len(of) {
			of = append(of, make([]*member, last+1-len(of))...)
			o[id] = of
		}
		for _, n := range nums {
			of[n] = m
		}
	}
}

// release makes partitions free.
func (o owners) release(p partitions) {
	for id, nums := range p {
		of := o[id]
		for _, n := range nums {
			if int(n) < len(of) {
				of[n] = nil
			}
		}
		if !slices.ContainsFunc(of, func(m *member) bool { return m != nil }) {
			delete(o, id)
		}
	}
}

// makePartitions adds numbers that a client has sent, in any order, to a set. Negative ones are
// left out.
func makePartitions(id topic.ID, nums []int32, into partitions) {
	all := slices.Concat(into[id], nums)
	slices.Sort(all)
	all = slices.Compact(all)
	for len(all) > 0 && all[0] < 0 {
		all = all[1:]
	}
	if len(all) > 0 {
		into[id] = all
	}
}
