package natslog

import (
	"bytes"
	"container/heap"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// feedLook is how many records a feed looks at while it holds the lock.
const feedLook = 8192

// Feed implements [mainstem.Reader].
func (l *Log) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		err := f.Validate()
		if err == nil {
			err = l.ready(ctx, "feed")
		}
		if err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		f.Spaces, f.KeyPrefix = distinct(f.Spaces), bytes.Clone(f.KeyPrefix)
		var w chan struct{}
		if f.Follow {
			w = make(chan struct{}, 1)
			l.followers.Add(w, f.Spaces)
			defer l.followers.Remove(w, f.Spaces)
		}
		l.feedOn(ctx, f, w, yield)
	}
}

// distinct returns names without repetitions; nil stays nil.
func distinct(names []string) []string {
	if names == nil {
		return nil
	}
	out := slices.Sorted(slices.Values(names))
	return slices.Compact(append([]string{}, out...))
}

// feedOn yields what there is, and with a follower goes on when there is more.
func (l *Log) feedOn(ctx context.Context, f mainstem.Filter, w <-chan struct{}, yield func(mainstem.Record, error) bool) {
	for {
		if l.ctx.Err() != nil || ctx.Err() != nil {
			yield(mainstem.Record{}, l.ended(ctx, "feed", time.Time{}, "records"))
			return
		}
		leave := l.readers.enter()
		records, through, more := l.feedChunk(f)
		away := outage{follows: w != nil, yield: yield}
		ok := l.lend(ctx, "feed", records, leaveOut, away.pass)
		leave()
		if away.err != nil { // it goes on behind what was yielded
			if !l.pause(retryPause) || ctx.Err() != nil {
				yield(mainstem.Record{}, away.err)
				return
			}
			f.After, f.Limit = max(f.After, away.last), f.Limit-min(f.Limit, away.yielded)
			continue
		}
		if !ok {
			return
		}
		if f.Limit > 0 {
			if f.Limit -= len(records); f.Limit == 0 {
				return
			}
		}
		f.After = max(f.After, through)
		if more {
			continue
		}
		if w == nil {
			return
		}
		if err := l.wait(ctx, "feed", w); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
	}
}

// outage takes the error of a follower that cannot read a message for want of servers: it waits for them, as
// it waits for records. Everything else is passed on.
type outage struct {
	follows bool
	yield   func(mainstem.Record, error) bool
	yielded int
	last    mainstem.Position // of the last record that was yielded
	err     error
}

func (o *outage) pass(r mainstem.Record, err error) bool {
	if o.follows && mainstem.KindOf(err) == mainstem.KindUnavailable {
		o.err = err
		return false
	}
	if err == nil {
		o.yielded, o.last = o.yielded+1, r.Position
	}
	return o.yield(r, err)
}

// feedChunk returns the next records of a feed, the position through which it has
// looked, and whether there may be more.
func (l *Log) feedChunk(f mainstem.Filter) (out []*record, through mainstem.Position, more bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	limit := chunkRecords
	if f.Limit > 0 {
		limit = min(limit, f.Limit)
	}
	now := l.nowLocked()
	prefix := string(f.KeyPrefix)
	m := l.mergeLocked(f.Spaces, uint64(f.After))
	for range feedLook {
		r := m.next()
		if r == nil {
			return out, mainstem.Position(l.st.head), false
		}
		through = mainstem.Position(r.pos)
		if r.dead || r.key.space.hidden(r, &now) || !strings.HasPrefix(r.key.name, prefix) {
			continue
		}
		if out = append(out, r); len(out) == limit {
			break
		}
	}
	return out, through, true
}

// merge goes through the records of several spaces by position.
type merge []cursor

type cursor struct {
	order []*record
	pos   uint64 // of order[0]
}

// mergeLocked returns the records after a position of the spaces named; nil means all.
func (l *Log) mergeLocked(names []string, after uint64) *merge {
	m := &merge{}
	add := func(sp *space) {
		if sp == nil || sp.policy.NoFeed {
			return
		}
		if order := sp.order[sp.after(after):]; len(order) > 0 {
			*m = append(*m, cursor{order, order[0].pos})
		}
	}
	if names == nil {
		for _, sp := range l.st.spaces {
			add(sp)
		}
	}
	for _, name := range names {
		add(l.st.spaces[name])
	}
	heap.Init(m)
	return m
}

// next returns the next record, nil at the end.
func (m *merge) next() *record {
	if len(*m) == 0 {
		return nil
	}
	c := &(*m)[0]
	r := c.order[0]
	if c.order = c.order[1:]; len(c.order) == 0 {
		heap.Pop(m)
		return r
	}
	c.pos = c.order[0].pos
	if len(*m) > 1 {
		heap.Fix(m, 0)
	}
	return r
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, j int) bool { return m[i].pos < m[j].pos }
func (m merge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(x any)        { *m = append(*m, x.(cursor)) }
func (m *merge) Pop() any {
	old := *m
	c := old[len(old)-1]
	*m = old[:len(old)-1]
	return c
}
