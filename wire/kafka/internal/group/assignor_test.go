package group

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/topic"
)

// drawPlan makes a plan of a few members and topics; all members read all topics
// if alike is true.
func drawPlan(t *rapid.T, alike bool) plan {
	p := plan{sizes: map[topic.ID]int32{}}
	topics := rapid.IntRange(0, 4).Draw(t, "topics")
	for i := range topics {
		p.sizes[topic.ID{byte(i + 1)}] = rapid.Int32Range(1, 7).Draw(t, "partitions")
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "members") {
		s := subscriber{id: fmt.Sprint("m", i), topics: map[topic.ID]bool{}}
		if rapid.Bool().Draw(t, "static") {
			s.instance = fmt.Sprint("i", 9-i)
		}
		for _, id := range p.topics() {
			if alike || rapid.Bool().Draw(t, "reads") {
				s.topics[id] = true
			}
		}
		p.members = append(p.members, s)
	}
	return p
}

// checkAssignment checks that every partition goes to exactly one reader of its topic.
func checkAssignment(t *rapid.T, p plan, out []partitions) {
	owner := map[slot]int{}
	for i, parts := range out {
		for s := range parts.each {
			if other, twice := owner[s]; twice {
				t.Fatalf("%v is given to %d and %d", s, other, i)
			}
			if !p.members[i].topics[s.id] || s.partition >= p.sizes[s.id] {
				t.Fatalf("member %d gets %v", i, s)
			}
			owner[s] = i
		}
		for _, nums := range parts {
			if len(nums) == 0 || !ascending(nums) {
				t.Fatalf("member %d gets %v", i, parts)
			}
		}
	}
	want := 0
	for id, n := range p.sizes {
		if len(p.readers(id)) > 0 {
			want += int(n)
		}
	}
	if len(owner) != want {
		t.Fatalf("%d of %d partitions are given", len(owner), want)
	}
}

func loads(out []partitions) (loads []int) {
	for _, p := range out {
		loads = append(loads, p.len())
	}
	return loads
}

func TestAssignorsAreComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, false)
		for _, assign := range assignors {
			for range 2 { // without a last assignment, and with its own as the last
				out := assign(p)
				checkAssignment(t, p, out)
				for i := range out {
					p.members[i].has = out[i]
				}
			}
		}
	})
}

// With equal subscriptions no two loads differ by more than one, and no more
// partitions move than that needs.
func TestUniformIsEvenAndSticky(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, true)
		before := uniform(p)
		for i := range before {
			p.members[i].has = before[i]
		}
		if n := len(p.members); n > 0 && rapid.Bool().Draw(t, "one leaves") {
			p.members = slices.Delete(p.members, 0, 1)
		}
		for range rapid.IntRange(0, 2).Draw(t, "some join") {
			p.members = append(p.members, subscriber{id: fmt.Sprint("n", len(p.members)), topics: map[topic.ID]bool{}})
			for id := range p.sizes {
				p.members[len(p.members)-1].topics[id] = true
			}
		}
		out := uniform(p)
		checkAssignment(t, p, out)
		if len(out) == 0 {
			return
		}
		l := loads(out)
		low, high := slices.Min(l), slices.Max(l)
		if high-low > 1 {
			t.Fatalf("loads %v", l)
		}
		lost, least := 0, 0
		var had []int
		for i, s := range p.members {
			lost += s.has.minus(out[i]).len()
			had = append(had, s.has.len())
		}
		slices.SortFunc(had, func(a, b int) int { return b - a })
		slices.SortFunc(l, func(a, b int) int { return b - a })
		for i := range had {
			least += max(0, had[i]-l[i]) // the members with the most partitions keep the larger loads
		}
		if lost != least {
			t.Fatalf("%d partitions move, %d would do", lost, least)
		}
	})
}

// With any subscriptions, the loads are as even as any assignment can make them.
func TestUniformIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, false)
		for id := range p.sizes {
			p.sizes[id] = min(p.sizes[id], 3)
		}
		if len(p.members) > 3 {
			p.members = p.members[:3]
		}
		if len(p.sizes) > 2 {
			for _, id := range p.topics()[2:] {
				delete(p.sizes, id)
				for _, m := range p.members {
					delete(m.topics, id)
				}
			}
		}
		for i := range p.members { // partitions of an earlier assignment, valid or not
			p.members[i].has = partitions{}
			for id := range p.members[i].topics {
				makePartitions(id, rapid.SliceOfN(rapid.Int32Range(0, 4), 0, 4).Draw(t, "has"), p.members[i].has)
			}
		}
		out := uniform(p)
		checkAssignment(t, p, out)
		if got, want := squares(loads(out)), cheapest(p, p.topics(), make([]int, len(p.members)), 0); got != want {
			t.Fatalf("loads %v cost %d, %d is possible", loads(out), got, want)
		}
	})
}

func squares(loads []int) int {
	sum := 0
	for _, l := range loads {
		sum += l * l
	}
	return sum
}

// cheapest tries all assignments, and returns the least sum of the squares of the loads.
func cheapest(p plan, topics []topic.ID, loads []int, partition int32) int {
	if len(topics) == 0 {
		return squares(loads)
	}
	readers := p.readers(topics[0])
	if len(readers) == 0 || partition == p.sizes[topics[0]] {
		return cheapest(p, topics[1:], loads, 0)
	}
	best := -1
	for _, i := range readers {
		loads[i]++
		if c := cheapest(p, topics, loads, partition+1); best < 0 || c < best {
			best = c
		}
		loads[i]--
	}
	return best
}

// Topics with the same readers and sizes are assigned alike.
func TestRangeMeets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, true)
		for id := range p.sizes {
			p.sizes[id] = 5
		}
		out := ranges(p)
		checkAssignment(t, p, out)
		for i, parts := range out {
			for id := range p.sizes {
				if first := p.topics()[0]; !slices.Equal(parts[id], parts[first]) {
					t.Fatalf("member %d has %v", i, parts)
				}
				if nums := parts[id]; len(nums) > 0 && int(nums[len(nums)-1]-nums[0]) != len(nums)-1 {
					t.Fatalf("member %d has %v, which is no range", i, nums)
				}
			}
		}
	})
}

func BenchmarkUniform(b *testing.B) {
	for _, size := range []struct{ members, topics, partitions int }{{10, 10, 100}, {200, 20, 100}} {
		b.Run(fmt.Sprintf("%dx%dx%d", size.members, size.topics, size.partitions), func(b *testing.B) {
			p := plan{sizes: map[topic.ID]int32{}}
			for i := range size.topics {
				p.sizes[topic.ID{byte(i)}] = int32(size.partitions)
			}
			for i := range size.members {
				s := subscriber{id: fmt.Sprint(i), topics: map[topic.ID]bool{}}
				for id := range p.sizes {
					s.topics[id] = i%7 != 0 || id[0]%2 == 0
				}
				p.members = append(p.members, s)
			}
			for b.Loop() {
				out := uniform(p)
				p.members[0].has, p.members[1].has = out[1], out[0]
			}
		})
	}
}
