package natskv

import (
	"strings"

	"github.com/mainstemdev/mainstem/kv"
)

// found is a live key.
type found struct {
	key     string // without the prefix of its table
	seq     uint64
	time    int64
	expires int64
}

// collect returns the live keys with a prefix that q selects, in order, at one
// moment. ok is false if the index is not ready at that moment.
func (x *index) collect(prefix string, q *kv.Query) (keys []found, ok bool) {
	c := collector{now: x.stream.store.clock.now(), prefix: prefix, q: q, skip: q.Offset}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.usableLocked() {
		return nil, false
	}
	room := x.keys.n
	if q.Limit > 0 {
		room = min(room, q.Limit)
	} else if prefix != "" || q.Prefix != "" || q.Suffix != "" || q.Start != "" || q.End != "" || q.After != "" {
		room = min(room, 64)
	}
	c.out = make([]found, 0, room)
	if q.Reverse {
		end, all := c.end()
		x.keys.down(end, all, c.add)
	} else {
		x.keys.up(c.start(), c.add)
	}
	return c.out, true
}

// collector gathers what a query selects.
type collector struct {
	now    int64
	prefix string // of the table
	q      *kv.Query
	skip   int
	out    []found
}

// start returns the first key in question.
func (c *collector) start() string {
	start := max(c.q.Prefix, c.q.Start)
	if !c.q.Reverse && c.q.After != "" {
		start = max(start, c.q.After+"\x00")
	}
	return c.prefix + start
}

// end returns the key below which all keys in question lie; all, if there is none.
func (c *collector) end() (end string, all bool) {
	end, all = successor(c.prefix + c.q.Prefix)
	for _, bound := range []string{c.q.End, c.q.After} {
		if bound != "" && (all || c.prefix+bound < end) {
			end, all = c.prefix+bound, false
		}
	}
	return end, all
}

// successor returns the first key after all that begin with prefix; all, if none does.
func successor(prefix string) (end string, all bool) {
	b := []byte(prefix)
	for n := len(b); n > 0; n-- {
		if b[n-1] < 0xff {
			b[n-1]++
			return string(b[:n]), false
		}
	}
	return "", true
}

// add takes an item; it is false when there cannot be more.
func (c *collector) add(i *item) bool {
	key, ours := strings.CutPrefix(i.key, c.prefix)
	if !ours || !strings.HasPrefix(key, c.q.Prefix) {
		return false
	}
	if c.q.Reverse && key < c.q.Start {
		return false
	}
	if !c.q.Reverse && c.q.End != "" && key >= c.q.End {
		return false
	}
	if key == "" || i.dead(c.now) || !strings.HasSuffix(key, c.q.Suffix) {
		return true
	}
	if c.skip > 0 {
		c.skip--
		return true
	}
	c.out = append(c.out, found{key: key, seq: i.seq, time: i.time, expires: i.expires})
	return c.q.Limit == 0 || len(c.out) < c.q.Limit
}
