package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
)

func rec(key, value string, v mainstem.Version, p mainstem.Position) Record {
	return Record{Space: "s", Key: key, Value: value, Version: v, Position: p}
}

// commit is an acknowledged commit that wrote records one after the other.
func commit(call, ret int64, conditions []mainstem.Condition, records ...Record) Operation {
	op := Operation{Client: 1, Call: call, Return: ret, Kind: Commit, Conditions: conditions}
	for _, r := range records {
		op.Writes = append(op.Writes, identity(r))
		op.Receipt.Versions = append(op.Receipt.Versions, r.Version)
	}
	op.Receipt.First, op.Receipt.Last = records[0].Position, records[len(records)-1].Position
	return op
}

func read(kind Kind, call, ret int64, key string, after mainstem.Position, seen ...Record) Operation {
	return Operation{Client: 2, Call: call, Return: ret, Kind: kind, Space: "s", Key: key, After: after, Seen: seen}
}

func at(key string, v mainstem.Version) []mainstem.Condition {
	return []mainstem.Condition{{Space: "s", Key: []byte(key), Test: mainstem.TestVersion, Version: v}}
}

var (
	a1, a2, a3 = rec("a", "a1", 1, 1), rec("a", "a2", 2, 2), rec("a", "a3", 3, 6)
	b1, c1, c2 = rec("b", "b1", 1, 3), rec("c", "c1", 1, 4), rec("c", "c2", 2, 7)
	d1         = rec("d", "d1", 1, 5)
)

// The operations of sound, by name.
const (
	commitA1 = iota
	commitA2B1C1
	getWhileA2
	scanAll
	conflictA1
	feedAll
	commitD1
	commitA3
	getWhileA3
	unknownC2
	refusedE1
	feedRest
	getA3
	soundLength
)

// sound returns a history that a lawful log can produce, with operations that
// overlap and every kind of outcome.
func sound() []Operation {
	ops := make([]Operation, soundLength)
	ops[commitA1] = commit(1, 2, []mainstem.Condition{{Space: "s", Key: []byte("a"), Test: mainstem.TestAbsent}}, a1)
	ops[commitA2B1C1] = commit(3, 6, at("a", 1), a2, b1, c1)
	ops[getWhileA2] = read(Get, 4, 5, "a", 0, a2)
	ops[scanAll] = read(Scan, 7, 8, "", 0, a2, b1, c1)
	ops[conflictA1] = Operation{Client: 3, Call: 9, Return: 10, Kind: Commit, Writes: []Record{rec("a", "never", 0, 0)}, Conditions: at("a", 1),
		Outcome: Conflict, Failed: at("a", 1)[0], Got: 2}
	ops[feedAll] = read(Feed, 11, 14, "", 0, a1, a2, b1, c1, d1)
	ops[commitD1] = commit(12, 13, nil, d1)
	ops[commitA3] = commit(15, 18, at("a", 2), a3)
	ops[getWhileA3] = read(Get, 16, 17, "a", 0, a2)
	ops[unknownC2] = Operation{Client: 4, Call: 19, Return: 20, Kind: Commit, Writes: []Record{identity(c2)}, Outcome: Unknown}
	ops[refusedE1] = Operation{Client: 4, Call: 21, Return: 22, Kind: Commit, Writes: []Record{rec("e", "e1", 0, 0)}, Outcome: NotWritten}
	ops[feedRest] = read(Feed, 23, 24, "", 5, a3, c2)
	ops[getA3] = read(Get, 25, 26, "a", 0, a3)
	return ops
}

func TestSoundHistory(t *testing.T) {
	for _, v := range Check(sound()) {
		t.Error(v)
	}
	if got := Check(nil); got != nil {
		t.Errorf("an empty history: %v", got)
	}
	ops := sound()
	slices.Reverse(ops) // the order in which they were noted says nothing
	for _, v := range Check(ops) {
		t.Error(v)
	}
}

func TestPlantedViolations(t *testing.T) {
	for _, tc := range []struct {
		name  string
		law   int
		says  string
		plant func(ops []Operation)
	}{
		{"stale get", lawOrdered, "stale", func(ops []Operation) { ops[getA3].Seen = []Record{a2} }},
		{"stale absence", lawOrdered, "stale", func(ops []Operation) { ops[getA3].Seen = nil }},
		{"stale scan", lawOrdered, "stale", func(ops []Operation) { ops[scanAll].Seen = []Record{a1} }},
		{"stale feed", lawOrdered, "acknowledged", func(ops []Operation) { ops[feedRest].Seen = nil }},
		{"read from the future", lawOrdered, "before its commit was called", func(ops []Operation) { ops[getWhileA2].Seen = []Record{a3} }},
		{"read goes back", lawOrdered, "had been read", func(ops []Operation) {
			ops[getWhileA2].Return, ops[getWhileA3].Seen = 5, []Record{a2}
			ops[commitA3].Return = 30 // not acknowledged in time: only reads tell
			ops[getWhileA3].Seen = []Record{a3}
			ops[getA3].Seen = []Record{a2}
			ops[feedRest].Call, ops[feedRest].Return = 31, 32
		}},
		{"torn scan", lawAtomic, "only version 1", func(ops []Operation) {
			ops[scanAll].Call, ops[scanAll].Seen = 5, []Record{a1, b1, c1} // overlaps the commit, so staleness does not tell
			ops[scanAll].Return = 7
		}},
		{"torn scan without a key", lawAtomic, "only version 0", func(ops []Operation) {
			ops[scanAll].Call, ops[scanAll].Seen = 5, []Record{a2, b1}
		}},
		{"scan out of order", lawOrdered, "scanned key", func(ops []Operation) { ops[scanAll].Seen = []Record{b1, a2, c1} }},
		{"torn feed", lawAtomic, "middle of the batch", func(ops []Operation) { ops[feedAll].Call = 5; ops[feedAll].Seen = []Record{a1, a2, b1} }},
		{"hole", lawOrdered, "hole", func(ops []Operation) { ops[feedAll].Seen = []Record{a2, b1, c1, d1} }},
		{"hole inside a batch", lawOrdered, "hole", func(ops []Operation) {
			ops[feedAll].Seen = []Record{a1, a2, c1, d1}
			ops[scanAll] = read(Get, 7, 8, "a", 0, a2) // so nobody ever saw b1
		}},
		{"feed out of order", lawOrdered, "out of order", func(ops []Operation) { ops[feedAll].Seen = []Record{a1, b1, a2, c1, d1} }},
		{"feed repeats", lawOrdered, "out of order", func(ops []Operation) { ops[feedAll].Seen = []Record{a1, a1, a2, b1, c1, d1} }},
		{"feed before its start", lawOrdered, "out of order", func(ops []Operation) { ops[feedRest].Seen = []Record{d1, a3, c2} }},
		{"lost update", lawOrdered, "update is lost", func(ops []Operation) {
			ops[commitA3].Receipt.Versions = []mainstem.Version{2}
			ops[feedRest].Seen[0].Version, ops[getA3].Seen[0].Version = 2, 2
		}},
		{"condition ignored", lawConditional, "on condition version 1", func(ops []Operation) { ops[commitA3].Conditions = at("a", 1) }},
		{"absence ignored", lawConditional, "on condition absent", func(ops []Operation) { ops[commitA3].Conditions[0].Test = mainstem.TestAbsent }},
		{"existence ignored", lawConditional, "on condition exists", func(ops []Operation) { ops[commitA1].Conditions[0].Test = mainstem.TestExists }},
		{"conflict without cause", lawConditional, "no conflict", func(ops []Operation) { ops[conflictA1].Got = 1 }},
		{"conflict out of time", lawConditional, "not have it at any moment", func(ops []Operation) { ops[conflictA1].Got = 3 }},
		{"conflict with the past", lawConditional, "not have it at any moment", func(ops []Operation) {
			ops[conflictA1].Call, ops[conflictA1].Return = 27, 28
		}},
		{"positions shared", lawOrdered, "share positions", func(ops []Operation) {
			ops[commitD1].Receipt.First, ops[commitD1].Receipt.Last = 4, 4
			ops[feedAll].Seen[4].Position = 4
		}},
		{"too few positions", lawOrdered, "got positions", func(ops []Operation) {
			ops[commitA2B1C1].Receipt.Last = 3
			ops[feedAll].Seen[3].Position, ops[scanAll].Seen[2].Position = 3, 3
		}},
		{"positions against time", lawOrdered, "acknowledged before", func(ops []Operation) {
			ops[commitA1].Call, ops[commitA1].Return = 40, 41
			ops[commitA2B1C1].Conditions = nil
			for i := range ops {
				if ops[i].Call < 40 && len(ops[i].Seen) > 0 {
					ops[i].Call, ops[i].Return = ops[i].Call+50, ops[i].Return+50
				}
			}
		}},
		{"versions against positions", lawOrdered, "batch comes later", func(ops []Operation) {
			ops[commitA1].Receipt.Versions[0], ops[feedAll].Seen[0].Version = 9, 9
		}},
		{"refused and there", lawHonest, "told that it was not written", func(ops []Operation) {
			ops[feedRest].Seen = append(ops[feedRest].Seen, rec("e", "e1", 1, 8))
		}},
		{"conflict and there", lawHonest, "told that it was not written", func(ops []Operation) {
			ops[getA3].Seen = []Record{rec("a", "never", 4, 8)}
		}},
		{"other value", lawExact, "nobody wrote", func(ops []Operation) { ops[getA3].Seen = []Record{rec("a", "A3", 3, 6)} }},
		{"other version", lawExact, "elsewhere its version", func(ops []Operation) { ops[getA3].Seen = []Record{rec("a", "a3", 4, 6)} }},
		{"other position", lawExact, "elsewhere its position", func(ops []Operation) { ops[getA3].Seen = []Record{rec("a", "a3", 3, 7)} }},
		{"unknown batch torn", lawOrdered, "hole", func(ops []Operation) {
			ops[unknownC2].Writes = append(ops[unknownC2].Writes, rec("f", "f1", 0, 0)) // never seen, though d2 behind it is
			d2 := rec("d", "d2", 2, 9)
			ops[refusedE1] = commit(21, 22, nil, d2)
			ops[feedRest].Seen = append(ops[feedRest].Seen, d2)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ops := sound()
			tc.plant(ops)
			got := Check(ops)
			if !slices.ContainsFunc(got, func(v Violation) bool { return v.Law == tc.law && strings.Contains(v.What, tc.says) }) {
				t.Errorf("got %v, want a violation of law %d that says %q", got, tc.law, tc.says)
			}
		})
	}
}

func TestUnknownOutcomeMayBeEither(t *testing.T) {
	ops := sound()
	ops[feedRest].Seen = []Record{a3} // c2 never became true
	for _, v := range Check(ops) {
		t.Error(v)
	}
	ops[conflictA1] = Operation{Client: 3, Call: 27, Return: 28, Kind: Commit, Conditions: at("c", 1), Outcome: Conflict, Failed: at("c", 1)[0], Got: 2}
	for _, v := range Check(ops) { // or it did in the end: this client met it
		t.Error(v)
	}
}

func TestRepeatedValueIsAMistakeOfTheCaller(t *testing.T) {
	ops := sound()
	ops[commitD1].Writes[0] = identity(a1)
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "a1") {
			t.Errorf("got %v, want a panic that names the value", r)
		}
	}()
	Check(ops)
}
