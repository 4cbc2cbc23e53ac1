package producer

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// read adds new batches of a partition to p.stored.
func (p *program) read(num int32) {
	all := &p.stored[num]
	from := p.starts[num]
	if n := len(*all); n > 0 {
		from = max(from, (*all)[n-1].next)
	}
	c, err := p.topic.Read(context.Background(), num, from, nil)
	p.must(err)
	var d recordbatch.Decoder
	for data := c.Data; len(data) > 0; {
		size := lengthPrefix + int(binary.BigEndian.Uint32(data[atLength:]))
		one := data[:size]
		data = data[size:]
		s := storedBatch{header: headerOf(one), base: int64(binary.BigEndian.Uint64(one))}
		s.next = s.base + int64(s.header.delta) + 1
		if s.header.control {
			h, err := recordbatch.Parse(one)
			p.must(err)
			s.commit, _ = h.Committed()
		} else {
			for r, err := range d.Records(one, s.base) {
				p.must(err)
				s.values = append(s.values, string(r.Value))
			}
		}
		*all = append(*all, s)
	}
}

// check compares all partitions with the model.
func (p *program) check() {
	seen := map[string]bool{}
	for num := range int32(programPartitions) {
		p.read(num)
		p.checkPartition(num, seen)
	}
	for v := range p.acked {
		if !seen[v] {
			p.Fatalf("the acknowledged %s is not there", v)
		}
	}
	all, err := p.topic.Offsets(programGroup).Load(context.Background())
	p.must(err)
	for num := range int32(programPartitions) {
		want, ok := p.offsets[num]
		if got, is := all[num]; ok != is || got.Next != want {
			p.Fatalf("the group goes on at %v in partition %d, want %d (%v)", got, num, want, ok)
		}
		pending := slices.ContainsFunc(p.txns, func(x *simTxn) bool { _, ok := x.offsets[num]; return ok })
		if got := p.m.Pending(programGroup, p.topic.ID(), num); got != pending {
			p.Fatalf("an offset in partition %d is pending: %v, want %v", num, got, pending)
		}
	}
}

func (p *program) checkPartition(num int32, seen map[string]bool) {
	end, start := int64(0), p.starts[num]
	open := map[int64]int64{}
	var aborted []Aborted
	for _, s := range p.stored[num] {
		end = s.next
		switch first, ok := open[s.header.pid]; {
		case s.header.control:
			if ok && !s.commit {
				aborted = append(aborted, Aborted{s.header.pid, first, s.base})
			}
			delete(open, s.header.pid)
		case s.header.transactional && !ok:
			open[s.header.pid] = s.base
		}
		for i, v := range s.values {
			if seen[v] {
				p.Fatalf("%s is there twice", v)
			}
			seen[v] = true
			if acked := p.acked[v]; acked == nil || acked.num != num || acked.offset != s.base+int64(i) {
				p.Fatalf("%s is at %d in partition %d, the client was told %+v", v, s.base+int64(i), num, acked)
			}
		}
	}
	want := max(start, end)
	for _, first := range open {
		want = min(want, max(first, start))
	}
	lso, err := p.m.Stable(context.Background(), p.topic, num, max(start, end))
	if p.must(err); lso != want {
		p.Fatalf("the last stable offset of partition %d is %d, want %d", num, lso, want)
	}
	p.checkAborted(num, aborted, lso)
	p.checkCommitted(num, lso)
}

// checkAborted compares the aborted transactions of a random range above the start.
func (p *program) checkAborted(num int32, aborted []Aborted, lso int64) {
	from := rapid.Int64Range(p.starts[num], max(p.starts[num], lso)).Draw(p.T, "from")
	to := rapid.Int64Range(from, max(from, lso)).Draw(p.T, "to")
	got, err := p.m.Aborted(context.Background(), p.topic, num, from, to)
	p.must(err)
	want := slices.DeleteFunc(aborted, func(a Aborted) bool { return a.Last < from || a.First >= to })
	if len(got) != len(want) {
		p.Fatalf("aborted in partition %d from %d to %d: got %v, want %v", num, from, to, got, want)
	}
	for i := range got {
		// A transaction whose first records were trimmed before recovery begins at the start.
		if g, w := got[i], want[i]; g.ProducerID != w.ProducerID || g.Last != w.Last || g.First != w.First && (g.First < w.First || g.First > p.starts[num]) {
			p.Fatalf("aborted in partition %d from %d to %d: got %v, want %v", num, from, to, got, want)
		}
	}
}

// checkCommitted compares the records that a consumer sees with the answers that clients got.
func (p *program) checkCommitted(num int32, lso int64) {
	f := quiet{p.outer, p.T}
	got, err := readCommitted(f, p.m, p.topic, num)
	p.must(err)
	var want []string
	for v, x := range p.acked {
		if x.num == num && x.fate == visible && x.offset >= p.starts[num] && x.offset < lso {
			want = append(want, fmt.Sprintf("%d=%s", x.offset, v))
		}
		if x.num == num && x.fate == undecided && x.offset < lso && x.offset >= p.starts[num] {
			p.Fatalf("%s at %d of partition %d is undecided, below the last stable offset %d", v, x.offset, num, lso)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		p.Fatalf("committed records of partition %d: got %v, want %v", num, got, want)
	}
}
