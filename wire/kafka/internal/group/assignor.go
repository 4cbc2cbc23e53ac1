package group

import (
	"maps"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem/topic"
)

// The assignors that members of consumer groups may ask for.
const (
	Uniform = "uniform" // as even as can be, and as few moves as that needs
	Range   = "range"   // of each topic a run of partitions: equal numbers of different topics meet
)

// plan is what an assignor is given.
type plan struct {
	members []subscriber // in an order that does not depend on chance
	sizes   map[topic.ID]int32
}

type subscriber struct {
	id, instance string
	topics       map[topic.ID]bool // those of sizes that it reads
	has          partitions        // its last target
}

// assignors return the new target of each member: every partition of a topic that
// anybody reads goes to exactly one of those who read it.
var assignors = map[string]func(plan) []partitions{Uniform: uniform, Range: ranges}

// readers returns the numbers of the members that read a topic.
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

// ranges gives each reader of a topic a run of its partitions, in the order of
// instances and IDs. Members without an instance come last, so that they do not
// move those with one.
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

// uniform keeps what members have and may keep, gives what is left over to those
// who have least, and then moves partitions as long as that evens out.
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

// balance is an assignment in the making.
type balance struct {
	plan  *plan
	order []topic.ID             // of topics
	loads []int                  // partitions of each member
	by    map[topic.ID][]int     // readers of each topic
	held  map[topic.ID][][]int32 // partitions of a topic that each member has
	left  []slot                 // that nobody has
}

// keep lets members have what they had of a topic.
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

// fill gives away what nobody has, the partitions with the fewest readers first.
func (b *balance) fill() {
	slices.SortStableFunc(b.left, func(s, t slot) int { return len(b.by[s.id]) - len(b.by[t.id]) })
	for _, s := range b.left {
		i := slices.MinFunc(b.by[s.id], func(i, j int) int { return b.loads[i] - b.loads[j] })
		b.held[s.id][i] = append(b.held[s.id][i], s.partition)
		b.loads[i]++
	}
}

// improve takes one partition from a member and gives one to another that had at
// least two less, if need be by way of others between them. It returns false if
// that is not possible any more: then the squares of the loads have the least sum.
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

// step says that a member is reached by moving a partition of a topic from another.
type step struct {
	from int
	id   topic.ID
}

// shift looks, in breadth, for members that partitions of the member first can get to.
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

// move gives the last partition of a topic that a member got to another.
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
