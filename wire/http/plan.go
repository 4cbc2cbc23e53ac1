package viewhttp

import (
	"encoding/binary"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// plan says which writes of a batch each action of a request made. With the receipt of the log
// it gives the results. It is remembered with an idempotency key, because a batch that is made
// anew may have other writes: an action that reads first reads something else by then.
type plan struct {
	Parts []part `json:"parts"`
}

// part is the plan of one action. It has one of these.
type part struct {
	Key     *int     `json:"key,omitempty"`     // index of the write of a key
	Value   *counter `json:"value,omitempty"`   // of an increment, with Key
	Events  []int    `json:"events,omitempty"`  // index of the first event, and the number of writes up to the last
	Records []slot   `json:"records,omitempty"` // record batches
}

// slot is a record batch of a topic.
type slot struct {
	Index     int    `json:"i"` // of the write
	Partition int32  `json:"p"`
	Count     uint32 `json:"n"` // of records
}

// recordsPart returns the plan of what was published into a space by the writes from first on.
func recordsPart(b *mainstem.Batch, first int, space string) part {
	p := part{Records: []slot{}}
	writes := b.Writes()
	for i := first; i < len(writes); i++ {
		if w := &writes[i]; w.Space == space && w.Op == mainstem.OpPut && len(w.Key) == 4 {
			p.Records = append(p.Records, slot{i, int32(binary.BigEndian.Uint32(w.Key)), max(w.Count, 1)})
		}
	}
	return p
}

// eventsPart returns the plan of the events appended by the writes from first on: records of an
// index may be before and between them.
func eventsPart(b *mainstem.Batch, first int, space string) part {
	writes := b.Writes()
	last := len(writes)
	for first < last && writes[first].Space != space {
		first++
	}
	for first < last && writes[last-1].Space != space {
		last--
	}
	return part{Events: []int{first, last - first}}
}

// keyPart returns the plan of the write of a key; value is that of an increment.
func keyPart(index int, value *counter) part { return part{Key: &index, Value: value} }

// result is what an action did.
type result struct {
	Revision *uint64   `json:"revision,omitempty"`
	Position *position `json:"position,omitempty"`
	Value    *counter  `json:"value,omitempty"`

	First         uint64    `json:"first,omitempty"`
	Last          uint64    `json:"last,omitempty"`
	FirstPosition *position `json:"firstPosition,omitempty"`
	LastPosition  *position `json:"lastPosition,omitempty"`

	Batches   []publishedBatch `json:"batches,omitempty"`
	Duplicate *bool            `json:"duplicate,omitempty"`
}

// publishedBatch is a record batch in the answer.
type publishedBatch struct {
	Partition int32   `json:"partition"`
	Base      counter `json:"base"`
	Next      counter `json:"next"`
}

// result returns what the action did, by the receipt of its batch.
func (p *part) result(r mainstem.Receipt) result {
	var out result
	at := positionsOf(r)
	version := func(i int) (uint64, *position) {
		if i < 0 || i >= len(r.Versions) {
			return 0, new(position)
		}
		where := position(at[i])
		return uint64(r.Versions[i]), &where
	}
	switch {
	case p.Key != nil:
		v, where := version(*p.Key)
		out.Revision, out.Position, out.Value = &v, where, p.Value
	case len(p.Events) == 2:
		out.First, out.FirstPosition = version(p.Events[0])
		out.Last, out.LastPosition = version(p.Events[0] + p.Events[1] - 1)
	case p.Records != nil:
		out.Batches = []publishedBatch{}
		for _, s := range p.Records {
			next, _ := version(s.Index)
			out.Batches = append(out.Batches, publishedBatch{s.Partition, counter(int64(next) - int64(s.Count)), counter(next)})
		}
	}
	return out
}

// appended returns the events that a request with a key appended, by the receipt of its batch. The
// record of the key is the last write.
func (p *part) appended(r mainstem.Receipt) event.Appended {
	a := event.Appended{FirstPosition: r.First, LastPosition: r.Last, Duplicate: r.Duplicate}
	if len(p.Events) != 2 || p.Events[0] < 0 || p.Events[1] < 1 || p.Events[1] > len(r.Versions)-p.Events[0] {
		return a // the plan is damaged
	}
	first, last := p.Events[0], p.Events[0]+p.Events[1]-1
	a.First, a.Last = r.Versions[first], r.Versions[last]
	if at := positionsOf(r); at[last] < r.Last { // else the engine leaves gaps between the positions of one batch
		a.FirstPosition, a.LastPosition = at[first], at[last]
	}
	return a
}

// committed is the answer to a commit.
type committed struct {
	First     position  `json:"first"`
	Last      position  `json:"last"`
	Time      time.Time `json:"time"`
	Duplicate bool      `json:"duplicate"`
	Results   []result  `json:"results"`
}
