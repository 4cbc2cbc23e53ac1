package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// commitStep commits one batch.
type commitStep struct {
	id         int // 0 means none; a small number, so that some repeat
	ensures    []int
	conditions []plannedCondition
	writes     []plannedWrite
}

// plannedCondition is a condition whose version is relative to the newest.
type plannedCondition struct {
	space, key int
	test       mainstem.Test
	delta      int
}

// plannedWrite is a write whose version is relative to what the model holds.
type plannedWrite struct {
	space, key int
	op         mainstem.Op
	value      int // index of values
	header     bool
	count      uint32
	ttl        time.Duration
	delta      int // truncate: from the version after the newest; edits: which record, or negative: one that is not there
}

// values of very different sizes; the second is empty, the first nil.
var values = [][]byte{nil, {}, []byte("v"), []byte("\x00\xff"), []byte(strings.Repeat("0123456789", 30)), []byte(strings.Repeat("x", 40_000))}

func (s commitStep) String() string {
	var parts []string
	if s.id != 0 {
		parts = append(parts, fmt.Sprintf("ID %d", s.id))
	}
	for _, i := range s.ensures {
		parts = append(parts, "ensure "+universe[i].name)
	}
	for _, c := range s.conditions {
		test := [...]string{fmt.Sprintf("has newest version%+d", c.delta), "is absent", "exists", fmt.Sprintf("was not written after its position (negative: one before) %d", c.delta)}[c.test]
		parts = append(parts, fmt.Sprintf("if %s/%q %s", universe[c.space].name, keys[c.key], test))
	}
	for _, w := range s.writes {
		parts = append(parts, w.String())
	}
	return "commit " + strings.Join(parts, "; ")
}

func (w plannedWrite) String() string {
	text := fmt.Sprintf("%s %s/%q", w.op, universe[w.space].name, keys[w.key])
	switch w.op {
	case mainstem.OpPut:
		text += "=" + bytesText(values[w.value])
		if w.count > 1 {
			text += fmt.Sprintf(" count %d", w.count)
		}
		if w.ttl > 0 {
			text += fmt.Sprintf(" for %v", w.ttl)
		}
	case mainstem.OpTruncate:
		text += fmt.Sprintf(" before newest%+d", w.delta+1)
	case mainstem.OpRewrite, mainstem.OpRemove:
		text += fmt.Sprintf(" record %d of those held (negative: none)", w.delta)
	}
	if w.header {
		text += " with headers"
	}
	return text
}

func (s commitStep) smaller() []step {
	var out []step
	for i := range s.writes {
		c := s
		c.writes = slices.Delete(slices.Clone(s.writes), i, i+1)
		out = append(out, c)
	}
	for i := range s.conditions {
		c := s
		c.conditions = slices.Delete(slices.Clone(s.conditions), i, i+1)
		out = append(out, c)
	}
	for i := range s.ensures {
		c := s
		c.ensures = slices.Delete(slices.Clone(s.ensures), i, i+1)
		out = append(out, c)
	}
	for i, w := range s.writes {
		for _, less := range []plannedWrite{{value: w.value}, {value: 2, header: w.header, count: w.count, ttl: w.ttl}, {value: w.value, ttl: w.ttl}} {
			less.space, less.key, less.op, less.delta = w.space, w.key, w.op, w.delta
			if less == w || less.value > w.value {
				continue
			}
			c := s
			c.writes = slices.Clone(s.writes)
			c.writes[i] = less
			out = append(out, c)
		}
	}
	if s.id != 0 {
		c := s
		c.id = 0
		out = append(out, c)
	}
	return out
}

// batches makes the batches that the step means at this moment, one for the engine and one
// for the model: positions differ.
func (s commitStep) batches(m *machine) (*mainstem.Batch, *mainstem.Batch) {
	return s.batch(m, false), s.batch(m, true)
}

func (s commitStep) batch(m *machine, ofModel bool) *mainstem.Batch {
	b := mainstem.NewBatch()
	if s.id != 0 {
		b.ID = fmt.Sprint("batch ", s.id, " ", m.era)
	}
	for _, i := range s.ensures {
		b.Ensure(universe[i].name, universe[i].policy)
	}
	for _, c := range s.conditions {
		cond := mainstem.Condition{Space: universe[c.space].name, Key: key(c.key), Test: c.test}
		if c.test == mainstem.TestVersion {
			newest := int(m.model.Version(cond.Space, cond.Key))
			cond.Version = mainstem.Version(max(newest+c.delta, 1))
			if newest > 0 && !m.holdsRecords(cond.Space, cond.Key) {
				cond.Test, cond.Version = mainstem.TestAbsent, 0 // what version it remembers is the engine's business
			}
		}
		if c.test == mainstem.TestNotAfter {
			inEngine, inModel := m.notAfter(c)
			if cond.Position = inEngine; ofModel {
				cond.Position = inModel
			}
		}
		b.If(cond)
	}
	for _, w := range s.writes {
		b.Add(w.write(m))
	}
	return b
}

// notAfter returns the position for a condition that holds, or with a negative delta fails,
// if the key was ever written. What later position an engine may remember of a record that
// was removed is its business: then it is the head, or one before the record's own.
func (m *machine) notAfter(c plannedCondition) (inEngine, inModel mainstem.Position) {
	u := universe[c.space]
	last, held := m.model.Written(u.name, key(c.key))
	if c.delta < 0 && (last > 0 || !m.mayForget(c.space)) {
		for p := range m.at {
			if p < last {
				inModel = max(inModel, p)
			}
		}
		return m.at[inModel], inModel
	}
	if p, known := m.at[last]; known && held {
		return p, last
	}
	if last == 0 && u.policy.History == 0 {
		return 0, 0
	}
	inEngine, _ = m.env.log.Head(m.ctx)
	inModel, _ = m.model.Head(m.ctx)
	return inEngine, inModel
}

// mayForget reports whether an engine may remember a position for keys of a space that were never
// written: one that has removed the newest record of a key whose history is bounded.
func (m *machine) mayForget(space int) bool {
	u := universe[space]
	return u.policy.History != 0 && slices.ContainsFunc(keys, func(k string) bool {
		last, held := m.model.Written(u.name, []byte(k))
		return last > 0 && !held
	})
}

func (w plannedWrite) write(m *machine) mainstem.Write {
	out := mainstem.Write{Op: w.op, Space: universe[w.space].name, Key: key(w.key)}
	if w.header && w.op != mainstem.OpForget && w.op != mainstem.OpTruncate && w.op != mainstem.OpRemove {
		out.Headers = mainstem.Headers{{Name: "h", Value: []byte("1")}, {Name: "h", Value: nil}, {Name: "", Value: []byte{}}}
	}
	switch w.op {
	case mainstem.OpPut:
		out.Value, out.Count, out.TTL = values[w.value], w.count, w.ttl
	case mainstem.OpTruncate:
		out.Version = mainstem.Version(max(int(m.model.Version(out.Space, out.Key))+1+w.delta, 1))
	case mainstem.OpRewrite, mainstem.OpRemove:
		if w.op == mainstem.OpRewrite {
			out.Value = values[w.value]
		}
		out.Version = m.model.Version(out.Space, out.Key) + 100
		if records, _ := collect(m.model.Read(m.ctx, out.Space, out.Key, mainstem.Versions{})); len(records) > 0 && w.delta >= 0 {
			out.Version = records[w.delta%len(records)].Version
		}
	}
	return out
}

func (s commitStep) run(m *machine) error {
	b, ofModel := s.batches(m)
	r, err := m.env.log.Commit(m.ctx, b)
	if err == nil && !r.Duplicate {
		m.follow(b, r)
	}
	want, wantErr := m.model.Commit(m.ctx, ofModel)
	if err != nil && wantErr != nil {
		return m.sameFailure(b, err, wantErr)
	}
	if err := sameError(err, wantErr); err != nil {
		return err
	}
	if r.Duplicate != want.Duplicate || !slices.Equal(r.Versions, want.Versions) || (r.First == 0) != (want.First == 0) ||
		m.env.f.Clock != nil && want.First != 0 && !r.Time.Equal(want.Time) {
		return fmt.Errorf("the receipt is %+v, want %+v", r, want)
	}
	if want.First != 0 {
		if err := errors.Join(m.learn(want.First, r.First), m.learn(want.Last, r.Last)); err != nil {
			return err
		}
	}
	for _, w := range s.writes {
		if err := (getStep{w.space, w.key}).run(m); err != nil {
			return fmt.Errorf("then get %s/%q: %w", universe[w.space].name, keys[w.key], err)
		}
	}
	return nil
}

// sameFailure compares two errors of a commit. A batch with several faults may
// fail for any of them.
func (m *machine) sameFailure(b *mainstem.Batch, err, want error) error {
	var failure *mainstem.Error
	if !errors.As(err, &failure) || failure.Outcome != mainstem.NotWritten {
		return fmt.Errorf("failed with %w, which does not say that nothing was written", err)
	}
	if w := failure.Want; failure.Kind == mainstem.KindConflict && w.Test == mainstem.TestNotAfter {
		last, held := m.model.Written(w.Space, w.Key)
		if p, known := m.at[last]; known && held && failure.GotPosition != p {
			return fmt.Errorf("failed with %w, but the newest record has position %d", err, p)
		}
	}
	faults := []mainstem.Kind{mainstem.KindConflict, mainstem.KindNotFound, mainstem.KindInvalid}
	if m.mayFail(b) < 2 || !slices.Contains(faults, failure.Kind) {
		return sameError(err, want)
	}
	if failure.Kind != mainstem.KindConflict || !m.holdsRecords(failure.Want.Space, failure.Want.Key) {
		return nil
	}
	if v := m.model.Version(failure.Want.Space, failure.Want.Key); failure.Got != v {
		return fmt.Errorf("failed with %w, but the newest version is %d", err, v)
	}
	return nil
}

// mayFail counts what in b can make it fail.
func (m *machine) mayFail(b *mainstem.Batch) int {
	n := len(b.Conditions())
	for _, w := range b.Writes() {
		_, err := m.model.Space(m.ctx, w.Space)
		if err != nil || w.Op >= mainstem.OpTruncate {
			n++
		}
	}
	return n
}
