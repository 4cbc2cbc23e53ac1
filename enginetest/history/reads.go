package history

import (
	"cmp"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// conflict checks that a commit that failed with Conflict met a version that
// its key had between call and return, and that does break the condition.
func (c *checker) conflict(op *Operation) {
	if op.Kind != Commit || op.Outcome != Conflict || op.Failed.Test == mainstem.TestNotAfter {
		return
	}
	space, key := op.Failed.Space, string(op.Failed.Key)
	if holds(op.Failed, op.Got) {
		c.report(lawConditional, "client %d got a conflict of %s/%s: want %s, got version %d, which is no conflict", op.Client, space, key, text(op.Failed), op.Got)
		return
	}
	if !c.hadVersion(space, key, op.Got, op) {
		c.report(lawConditional, "client %d got a conflict because %s/%s had version %d, but it did not have it at any moment of the commit", op.Client, space, key, op.Got)
	}
}

// hadVersion reports whether v can have been the newest version of a key at a
// moment between call and return of op.
func (c *checker) hadVersion(space, key string, v mainstem.Version, op *Operation) bool {
	known := v == 0
	for _, w := range c.byKey[[2]string{space, key}] {
		switch {
		case w.Version == v:
			known = w.op.Call < op.Return
		case w.Version > v && w.op.Outcome == Written && w.op.Return < op.Call:
			return false // it was superseded before
		}
	}
	return known || c.unsure(space, key)
}

// unsure reports whether a write to the key has an unknown outcome and was
// never seen: it may have given a version that no one knows of.
func (c *checker) unsure(space, key string) bool {
	for _, b := range c.batches {
		if b.op.Outcome != Unknown || b.committed {
			continue
		}
		for _, w := range b.writes {
			if w.Space == space && w.Key == key {
				return true
			}
		}
	}
	return false
}

func (c *checker) read(op *Operation) {
	switch op.Kind {
	case Get:
		c.newest(op, op.Space, op.Key, op.Seen)
	case Scan:
		c.scan(op)
	case Feed:
		c.feed(op)
	}
}

// newest checks that a read that saw the record given, or none, of a key was
// not stale.
func (c *checker) newest(op *Operation, space, key string, seen []Record) {
	var v mainstem.Version
	if len(seen) > 0 {
		v = seen[0].Version
	}
	for _, w := range c.byKey[[2]string{space, key}] {
		if w.Version > v && w.op.Outcome == Written && w.op.Return < op.Call {
			c.report(lawOrdered, "client %d read version %d of %s/%s after %s had been acknowledged: the read is stale", op.Client, v, space, key, w.Record)
			return
		}
	}
}

// scan checks that all records seen are the newest at one place in the order.
func (c *checker) scan(op *Operation) {
	shown := map[string]Record{}
	last := 0 // the place of the latest batch of which something was seen
	for i, r := range op.Seen {
		if i > 0 && op.Seen[i-1].Key >= r.Key {
			c.report(lawOrdered, "client %d scanned key %s after %s", op.Client, r.Key, op.Seen[i-1].Key)
		}
		shown[r.Key] = r
		last = max(last, c.byValue[identity(r)].place)
	}
	for k, writes := range c.byKey {
		if k[0] != op.Space {
			continue
		}
		r, ok := shown[k[1]]
		var seen []Record
		if ok {
			seen = []Record{r}
		}
		c.newest(op, k[0], k[1], seen)
		for _, w := range writes {
			if w.place <= last && w.Version > r.Version {
				c.report(lawAtomic, "client %d scanned space %s: it saw a record of the batch at position %d, but of key %s only version %d and not %s", op.Client, op.Space, c.ordered[last-1].first, k[1], r.Version, w.Record)
				break
			}
		}
	}
}

// feed checks that the records seen are all records after op.After up to some
// place between batches, and that this place is not stale.
func (c *checker) feed(op *Operation) {
	seen := map[mainstem.Position]bool{}
	last := 0
	for i, r := range op.Seen {
		if r.Position <= op.After || i > 0 && op.Seen[i-1].Position >= r.Position {
			c.report(lawOrdered, "client %d read a feed after %d: %s is out of order", op.Client, op.After, r)
			return
		}
		seen[r.Position] = true
		last = max(last, c.byValue[identity(r)].place)
	}
	for _, b := range c.ordered {
		for _, w := range b.writes {
			// A record whose position nobody knows lies within its batch.
			if at := max(w.Position, b.first); at <= op.After || seen[w.Position] {
				continue
			}
			switch {
			case b.place == last:
				c.report(lawAtomic, "client %d read a feed that ends in the middle of the batch at position %d: %s is missing", op.Client, b.first, w.Record)
			case b.place < last:
				c.report(lawOrdered, "client %d read a feed up to position %d with a hole: %s is missing", op.Client, op.Seen[len(op.Seen)-1].Position, w.Record)
			case b.op.Outcome == Written && b.op.Return < op.Call:
				c.report(lawOrdered, "client %d read a feed that ends before %s, which had been acknowledged", op.Client, w.Record)
			default:
				continue
			}
			return
		}
	}
}

// monotone checks that of two reads of a key, one after the other, the later
// one did not see an older version.
func (c *checker) monotone(operations []Operation) {
	type look struct {
		op      *Operation
		version mainstem.Version
	}
	looks := map[[2]string][]look{}
	for i := range operations {
		op := &operations[i]
		if op.Kind == Get && len(op.Seen) == 0 {
			k := [2]string{op.Space, op.Key}
			looks[k] = append(looks[k], look{op, 0})
		}
		if op.Kind == Get || op.Kind == Scan {
			for _, r := range op.Seen {
				k := [2]string{r.Space, r.Key}
				looks[k] = append(looks[k], look{op, r.Version})
			}
		}
	}
	for k, list := range looks {
		byReturn := slices.Clone(list)
		slices.SortFunc(byReturn, func(a, b look) int { return cmp.Compare(a.op.Return, b.op.Return) })
		slices.SortFunc(list, func(a, b look) int { return cmp.Compare(a.op.Call, b.op.Call) })
		var highest mainstem.Version // seen by reads that had returned
		n := 0
		for _, l := range list {
			for ; n < len(byReturn) && byReturn[n].op.Return < l.op.Call; n++ {
				highest = max(highest, byReturn[n].version)
			}
			if l.version < highest {
				c.report(lawOrdered, "client %d read version %d of %s/%s after version %d had been read", l.op.Client, l.version, k[0], k[1], highest)
			}
		}
	}
}
