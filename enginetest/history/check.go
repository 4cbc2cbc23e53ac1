package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// Violation is one thing that a log obeying the laws could not have answered.
type Violation struct {
	Law  int // its number in the documentation of package mainstem
	What string
}

// String returns "breaks law 2: ...".
func (v Violation) String() string { return fmt.Sprintf("breaks law %d: %s", v.Law, v.What) }

// The numbers of the laws that a history can show to be broken.
const (
	lawAtomic      = 1
	lawOrdered     = 2
	lawConditional = 4
	lawHonest      = 5
	lawExact       = 7
)

// Check returns what in operations is not possible on a log that obeys the
// laws, nil if everything is. See the limits in the package comment.
func Check(operations []Operation) []Violation {
	c := checker{byValue: map[Record]*write{}, byKey: map[[2]string][]*write{}}
	c.collect(operations)
	c.sightings(operations)
	c.order()
	if len(c.found) > 0 {
		return c.found // what follows relies on one order of sound numbers
	}
	c.realTime()
	c.conditions()
	for i := range operations {
		c.conflict(&operations[i])
		c.read(&operations[i])
	}
	c.monotone(operations)
	return c.found
}

// batch is a commit with what became known of it.
type batch struct {
	op          *Operation
	writes      []*write
	committed   bool // acknowledged, or of unknown outcome and seen
	first, last mainstem.Position
	place       int // in the order of the log, from 1
}

// write is one record of a batch.
type write struct {
	*batch
	Record // Version and Position are 0 as long as they are not known
}

type checker struct {
	batches []*batch
	byValue map[Record]*write      // by Space, Key and Value
	byKey   map[[2]string][]*write // committed, by version once order has run
	ordered []*batch               // committed, in the order of the log
	found   []Violation
}

func (c *checker) report(law int, format string, args ...any) {
	c.found = append(c.found, Violation{law, fmt.Sprintf(format, args...)})
}

func identity(r Record) Record { return Record{Space: r.Space, Key: r.Key, Value: r.Value} }

// collect notes every write and what its receipt says.
func (c *checker) collect(operations []Operation) {
	for i := range operations {
		op := &operations[i]
		if op.Kind != Commit || len(op.Writes) == 0 {
			continue
		}
		b := &batch{op: op, committed: op.Outcome == Written, first: op.Receipt.First, last: op.Receipt.Last}
		for j, r := range op.Writes {
			w := &write{batch: b, Record: identity(r)}
			if c.byValue[w.Record] != nil {
				panic(fmt.Sprintf("history: value %q of %s/%s was written twice: it must identify its write", r.Value, r.Space, r.Key))
			}
			c.byValue[w.Record] = w
			b.writes = append(b.writes, w)
			if b.committed {
				w.Version = op.Receipt.Versions[j]
			}
		}
		if b.committed {
			b.writes[0].Position, b.writes[len(b.writes)-1].Position = b.first, b.last
			if n := mainstem.Position(len(b.writes)); b.first == 0 || b.last < b.first+n-1 {
				c.report(lawOrdered, "a batch of %d records got positions %d to %d", n, b.first, b.last)
			}
		}
		c.batches = append(c.batches, b)
	}
}

// sightings compares every record seen with the write that its value names.
func (c *checker) sightings(operations []Operation) {
	for i := range operations {
		op := &operations[i]
		for _, r := range op.Seen {
			w := c.byValue[identity(r)]
			if w == nil {
				c.report(lawExact, "client %d saw %s, which nobody wrote", op.Client, r)
				continue
			}
			c.sighting(op, r, w)
		}
	}
}

func (c *checker) sighting(op *Operation, r Record, w *write) {
	switch {
	case w.op.Outcome == Conflict || w.op.Outcome == NotWritten:
		c.report(lawHonest, "client %d saw %s, but client %d was told that it was not written", op.Client, r, w.op.Client)
	case w.op.Call > op.Return:
		c.report(lawOrdered, "client %d saw %s before its commit was called", op.Client, r)
	case w.Version != 0 && w.Version != r.Version:
		c.report(lawExact, "client %d saw %s, elsewhere its version is %d", op.Client, r, w.Version)
	case w.Position != 0 && w.Position != r.Position:
		c.report(lawExact, "client %d saw %s, elsewhere its position is %d", op.Client, r, w.Position)
	}
	w.committed = true
	w.Version, w.Position = r.Version, r.Position
	if w.op.Outcome == Unknown {
		if w.first == 0 || r.Position < w.first {
			w.first = r.Position
		}
		w.last = max(w.last, r.Position)
	}
}

// order puts committed batches and the records of each key in their order and
// checks that there is one.
func (c *checker) order() {
	for _, b := range c.batches {
		if !b.committed {
			continue
		}
		c.ordered = append(c.ordered, b)
		for _, w := range b.writes {
			if w.Version != 0 {
				k := [2]string{w.Space, w.Key}
				c.byKey[k] = append(c.byKey[k], w)
			}
		}
	}
	slices.SortStableFunc(c.ordered, func(a, b *batch) int { return cmp.Compare(a.first, b.first) })
	for i, b := range c.ordered {
		b.place = i + 1
		if i > 0 && c.ordered[i-1].last >= b.first {
			p := c.ordered[i-1]
			c.report(lawOrdered, "batches of clients %d and %d share positions: %d to %d and %d to %d", p.op.Client, b.op.Client, p.first, p.last, b.first, b.last)
		}
		for j := 1; j < len(b.writes); j++ {
			if x, y := b.writes[j-1], b.writes[j]; x.Position != 0 && y.Position != 0 && x.Position >= y.Position {
				c.report(lawOrdered, "%s comes before %s in its batch", x.Record, y.Record)
			}
		}
	}
	for _, writes := range c.byKey {
		c.orderKey(writes)
	}
}

// orderKey sorts the writes of one key by version and compares that order with
// the one of their batches.
func (c *checker) orderKey(writes []*write) {
	slices.SortStableFunc(writes, func(a, b *write) int { return cmp.Compare(a.Version, b.Version) })
	for i := 1; i < len(writes); i++ {
		a, b := writes[i-1], writes[i]
		switch {
		case a.Version == b.Version:
			c.report(lawOrdered, "version %d of %s/%s was given to %s and to %s: an update is lost", a.Version, a.Space, a.Key, a.Value, b.Value)
		case a.place > b.place:
			c.report(lawOrdered, "%s has a version below %s, but its batch comes later", a.Record, b.Record)
		}
	}
}

// realTime checks that a batch acknowledged before another was called has the
// lower positions.
func (c *checker) realTime() {
	var late *batch // of those so far, the one that was called last
	for _, b := range c.ordered {
		if late != nil && b.op.Outcome == Written && b.op.Return < late.op.Call {
			c.report(lawOrdered, "the batch at position %d was acknowledged before the one at %d was called, but has a higher position", b.first, late.first)
		}
		if late == nil || b.op.Call > late.op.Call {
			late = b
		}
	}
}

// before returns the newest version of a key before place in the order.
func (c *checker) before(space, key string, place int) mainstem.Version {
	var v mainstem.Version
	for _, w := range c.byKey[[2]string{space, key}] {
		if w.place < place {
			v = w.Version
		}
	}
	return v
}

// conditions checks those of every committed batch at its place in the order.
func (c *checker) conditions() {
	for _, b := range c.ordered {
		for _, cond := range b.op.Conditions {
			got := c.before(cond.Space, string(cond.Key), b.place)
			if !holds(cond, got) && !c.unsure(cond.Space, string(cond.Key)) {
				c.report(lawConditional, "client %d committed at position %d on condition %s of %s/%s, which had version %d there", b.op.Client, b.first, text(cond), cond.Space, cond.Key, got)
			}
		}
	}
}

func holds(c mainstem.Condition, got mainstem.Version) bool {
	switch c.Test {
	case mainstem.TestVersion:
		return got == c.Version
	case mainstem.TestAbsent:
		return got == 0
	case mainstem.TestNotAfter:
		return true // positions of keys are not looked at
	}
	return got != 0 // TestExists
}

func text(c mainstem.Condition) string {
	switch c.Test {
	case mainstem.TestVersion:
		return fmt.Sprintf("version %d", c.Version)
	case mainstem.TestAbsent:
		return "absent"
	case mainstem.TestNotAfter:
		return fmt.Sprintf("not after position %d", c.Position)
	}
	return "exists"
}
