package group

import (
	"maps"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem/topic"
)

// The assignors that members of consumer groups may ask for.
const (
	// Uniform gives the members numbers of partitions that are as even as their subscriptions
	// allow, and keeps as much of the last assignment as it can.
	Uniform = "uniform"
	// Range gives each member a range of the partitions of each topic. Partitions with the same
	// number go to the same member if their topics have the same members and sizes.
	Range = "range"
)

// plan is the input of an assignor.
type plan struct {
	members []subscriber       // by ID, so that the same members get the same assignment
	sizes   map[topic.ID]int32 // the number of partitions of each topic
}

// subscriber is a member in a plan.
type subscriber struct {
	id, instance string            // instance is "" without one
	topics       map[topic.ID]bool // those of sizes that it is subscribed to
	has          partitions        // its last target
}

// assignors are pure functions that return the new target of each member, in the order of the
// members. Every partition of a topic with subscribers goes to exactly one of them.
var assignors = map[string]func(plan) []partitions{Uniform: uniform, Range: ranges}

// readers returns the indexes of the members that are subscribed to a topic.
func (p *plan) readers(id topic.ID) []int {
	var out []int
	for i := range p.members {
		if p.members[i].topics[id] {
			out = append(out, i)
		}
	}
	return out
}

func (p *plan) topics() []topic.ID {
	return slices.SortedFunc(maps.Keys(p.sizes), compareIDs)
}

// ranges is the assignor Range: each reader of a topic gets a range of its partitions. Static
// members come first, by instance, and then the others by ID, so that the random ID of a new member
// does not change the order of static members.
func ranges(p plan) []partitions {
	out := make([]partitions, len(p.members))
	for i := range out {
		out[i] = partitions{}
	}
	for _, id := range p.topics() {
		readers := p.readers(id)
		slices.SortFunc(readers, func(a, b int) int { return p.members[a].compare(&p.members[b]) })
		first := int32(0)
		for i, reader := range readers {
			left := int32(len(readers) - i)
			n := (p.sizes[id] - first + left - 1) / left
			for ; n > 0; n-- {
				out[reader][id] = append(out[reader][id], first)
				first++
			}
		}
	}
	return out
}

func (s *subscriber) compare(t *subscriber) int {
	switch {
	case s.instance != "" && t.instance != "":
		return strings.Compare(s.instance, t.instance)
	case s.instance != "":
		return -1
	case t.instance != "":
		return 1
	}
	return strings.Compare(s.id, t.id)
}

// uniform is the assignor Uniform:
//
//  1. keep: members keep the partitions of their last target that they may still read.
//  2. fill: each partition that is left goes to the reader with the fewest partitions.
//  3. improve: single partitions are moved until no move makes the numbers more even.
func uniform(p plan) []partitions {
	b := &balance{plan: &p, order: p.topics(), loads: make([]int, len(p.members)), held: map[topic.ID][][]int32{}, by: map[topic.ID][]int{}}
	for _, id := range b.order {
		b.by[id] = p.readers(id)
		b.keep(id)
	}
	b.fill()
	for b.improve() {
	}
	return b.result()
}

// balance is the assignment that uniform computes. Members are numbered as in the plan.
type balance struct {
	plan  *plan
	order []topic.ID             // of topics, so that the result is always the same
	loads []int                  // by member, the number of its partitions
	by    map[topic.ID][]int     // by topic, its readers
	held  map[topic.ID][][]int32 // by topic and member, the partitions of the member
	left  []slot                 // partitions without a member, for fill
}

// keep does step 1 for a topic.
func (b *balance) keep(id topic.ID) {
	size := b.plan.sizes[id]
	taken := make([]bool, size)
	held := make([][]int32, len(b.plan.members))
	for _, i := range b.by[id] {
		for _, n := range b.plan.members[i].has[id] {
			if n < size && !taken[n] {
				taken[n] = true
				held[i] = append(held[i], n)
				b.loads[i]++
			}
		}
	}
	b.held[id] = held
	for n := range size {
		if !taken[n] && len(b.by[id]) > 0 {
			b.left = append(b.left, slot{id, n})
		}
	}
}

// fill does step 2, for the partitions with the fewest readers first.
func (b *balance) fill() {
	slices.SortStableFunc(b.left, func(s, t slot) int { return len(b.by[s.id]) - len(b.by[t.id]) })
	for _, s := range b.left {
		i := slices.MinFunc(b.by[s.id], func(i, j int) int { return b.loads[i] - b.loads[j] })
		b.held[s.id][i] = append(b.held[s.id][i], s.partition)
		b.loads[i]++
	}
}

// improve does one move of step 3. It takes a partition from one member and gives one to another
// that had at least two less. If the two have no topic in common, members between them each get a
// partition and give one. It returns false if no such move exists; the sum of the squares of the
// loads is then minimal.
func (b *balance) improve() bool {
	if len(b.loads) == 0 || slices.Max(b.loads)-slices.Min(b.loads) < 2 {
		return false
	}
	from := make([]int, len(b.loads))
	for i := range from {
		from[i] = i
	}
	slices.SortStableFunc(from, func(i, j int) int { return b.loads[j] - b.loads[i] })
	for _, i := range from {
		if b.shift(i) {
			return true
		}
	}
	return false
}

// step is the move by which shift reaches a member: it gets a partition of the topic id of another.
type step struct {
	from int // the other member; -1: the search begins here
	id   topic.ID
}

// shift searches, breadth first, for a member with at least two partitions less than first that can
// be reached by moves, and does the moves on the way to the one with the fewest. It returns false
// if there is none.
func (b *balance) shift(first int) bool {
	steps := map[int]step{first: {from: -1}}
	tried := map[topic.ID]bool{}
	best := -1
	for queue := []int{first}; len(queue) > 0 && best < 0; {
		var next []int
		for _, i := range queue {
			for _, id := range b.order {
				if tried[id] || len(b.held[id][i]) == 0 {
					continue
				}
				tried[id] = true
				for _, j := range b.by[id] {
					if _, seen := steps[j]; seen {
						continue
					}
					steps[j] = step{i, id}
					next = append(next, j)
					if b.loads[j] <= b.loads[first]-2 && (best < 0 || b.loads[j] < b.loads[best]) {
						best = j
					}
				}
			}
		}
		queue = next
	}
	if best < 0 {
		return false
	}
	for j := best; j != first; j = steps[j].from {
		b.move(steps[j].id, steps[j].from, j)
	}
	return true
}

// move gives another member the partition of a topic that the member from got last.
func (b *balance) move(id topic.ID, from, to int) {
	held := b.held[id]
	last := len(held[from]) - 1
	held[to] = append(held[to], held[from][last])
	held[from] = held[from][:last]
	b.loads[from]--
	b.loads[to]++
}

func (b *balance) result() []partitions {
	out := make([]partitions, len(b.plan.members))
	for i := range out {
		out[i] = partitions{}
	}
	for id, held := range b.held {
		for i, nums := range held {
			if len(nums) > 0 {
				out[i][id] = slices.Sorted(slices.Values(nums))
			}
		}
	}
	return out
}
