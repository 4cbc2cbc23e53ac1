package enginetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
)

// machine runs the steps of one program on an engine and on the model.
type machine struct {
	env   *env // for the engine's log and how to reopen it; it reports nothing
	model *model.Log
	ctx   context.Context

	// at maps positions of the model to those of the engine. Positions may differ,
	// their order may not.
	at        map[mainstem.Position]mainstem.Position
	snapshots struct{ engine, model mainstem.Snapshot }

	began time.Time // what the clock showed in the beginning
	odd   bool      // the clock was set
	backs int       // how often it was set back
	era   int       // of batch IDs
}

// loud is the reporter of code that must not report: programs return errors.
type loud struct{ reporter }

func (loud) Helper() {}

func (loud) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (loud) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func newMachine(f Features, s store) *machine {
	p := newProgress(12 * f.Patience)
	o := &model.Options{Limits: f.Limits}
	var began time.Time
	if f.Clock != nil {
		o.Now, o.Monotonic = f.Clock.Now, f.Clock.Monotonic
		began = f.Clock.Now()
	}
	e := &env{reporter: loud{}, ctx: p, progress: p, f: f, store: s, log: s.open()}
	return &machine{env: e, model: model.New(o), ctx: p, at: map[mainstem.Position]mainstem.Position{}, began: began}
}

// finish compares all that is left, if thorough also after a restart, and checks
// the engine.
func (m *machine) finish(thorough bool) error {
	if err := (snapshotStep{}).end(m); err != nil {
		return err
	}
	steps := []step{feedStep{}, listStep{}, headStep{}}
	for i := range universe {
		steps = append(steps, scanStep{space: i, r: mainstem.Range{Tombstones: true}}, infoStep{space: i})
		for j := range keys {
			steps = append(steps, readStep{space: i, key: j})
		}
	}
	for range 2 {
		for _, st := range steps {
			m.env.progress.moved()
			if err := st.run(m); err != nil {
				return fmt.Errorf("in the end, %s: %w", st, err)
			}
		}
		if m.env.f.Reopen == nil || !thorough {
			break
		}
		if err := (restartStep{}).run(m); err != nil {
			return err
		}
	}
	if c, ok := m.env.log.(mainstem.Checker); ok {
		var found []string
		if _, err := c.Check(m.ctx, func(p mainstem.Problem) { found = append(found, p.Where+": "+p.What) }); err != nil {
			return fmt.Errorf("in the end, check: %w", err)
		}
		if len(found) > 0 {
			return fmt.Errorf("in the end, check: %s", strings.Join(found, "; "))
		}
	}
	return m.monotone()
}

// close releases everything, also after a failure, and sets the clock back to where it was.
func (m *machine) close() error {
	defer m.env.progress.stop()
	defer func() {
		if c := m.env.f.Clock; c != nil {
			c.Set(m.began.Sub(c.Now()))
		}
	}()
	if s := m.snapshots.engine; s != nil {
		_ = guarded(s.Close)
	}
	return m.env.closed()
}

// learn notes that a record has one position in the model and one in the engine.
func (m *machine) learn(inModel, inEngine mainstem.Position) error {
	if had, ok := m.at[inModel]; ok && had != inEngine {
		return fmt.Errorf("a record that had position %d has position %d", had, inEngine)
	}
	m.at[inModel] = inEngine
	return nil
}

// monotone checks that positions of the engine are in the order of the model's.
func (m *machine) monotone() error {
	var last mainstem.Position
	for _, p := range slices.Sorted(maps.Keys(m.at)) {
		if m.at[p] <= last {
			return fmt.Errorf("position %d was given after position %d", m.at[p], last)
		}
		last = m.at[p]
	}
	return nil
}

// sameRecords compares what a read yielded with what it yields in the model.
func (m *machine) sameRecords(got []mainstem.Record, err error, want []mainstem.Record, wantErr error, limit int) error {
	if err := sameError(err, wantErr); err != nil || wantErr != nil {
		return err
	}
	got, want = canonical(got, limit), canonical(want, limit)
	if d := difference(briefs(got), briefs(want)); d != "" {
		return fmt.Errorf("%s", d)
	}
	for i, w := range want {
		g := got[i]
		if w.Version == 0 {
			continue // GetMany found nothing
		}
		if m.env.f.Clock != nil && !g.Time.Equal(w.Time) {
			return fmt.Errorf("%s is of %v, want %v", brief(g), g.Time, w.Time)
		}
		if w.Tombstone != mainstem.Expired { // those of one sweep have no order
			if err := m.learn(w.Position, g.Position); err != nil {
				return fmt.Errorf("%s: %w", brief(g), err)
			}
		}
		if g.Expires.IsZero() != w.Expires.IsZero() || !g.Expires.IsZero() && g.Expires.Sub(g.Time) != w.Expires.Sub(w.Time) {
			return fmt.Errorf("%s of %v expires %v, want %v later", brief(g), g.Time, g.Expires, w.Expires.Sub(w.Time))
		}
	}
	return nil
}

// canonical sorts runs of Expired tombstones: in which order a sweep writes them
// is not said. A run that a limit may have cut is left out.
func canonical(records []mainstem.Record, limit int) []mainstem.Record {
	if limit > 0 && len(records) == limit {
		for len(records) > 0 && records[len(records)-1].Tombstone == mainstem.Expired {
			records = records[:len(records)-1]
		}
	}
	for i := 0; i < len(records); i++ {
		j := i
		for j < len(records) && records[j].Tombstone == mainstem.Expired {
			j++
		}
		slices.SortFunc(records[i:j], func(a, b mainstem.Record) int {
			return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(string(a.Key), string(b.Key)), cmp.Compare(a.Version, b.Version))
		})
		i = max(i, j-1)
	}
	return records
}

// sameError compares whether a call failed, and with which kind of error.
func sameError(err, want error) error {
	switch {
	case err == nil && want == nil:
		return nil
	case err == nil:
		return fmt.Errorf("succeeded, the model says: %w", want)
	case want == nil:
		return fmt.Errorf("failed with %w, the model succeeds", err)
	case mainstem.KindOf(err) != mainstem.KindOf(want):
		return fmt.Errorf("failed with %w, the model says: %s", err, want)
	}
	return nil
}

// holdsRecords reports whether the model holds a record of a key.
func (m *machine) holdsRecords(space string, key []byte) bool {
	for range m.model.Read(m.ctx, space, key, mainstem.Versions{}) {
		return true
	}
	return false
}

// follow lets the model go on from the versions that the engine gave to keys
// of which nothing is held: only that they are higher is promised.
func (m *machine) follow(b *mainstem.Batch, r mainstem.Receipt) {
	seen := map[[2]string]bool{}
	for i, w := range b.Writes() {
		k := [2]string{w.Space, string(w.Key)}
		if seen[k] || i >= len(r.Versions) || r.Versions[i] == 0 { // 0: it wrote nothing, as the delete of what is not there
			continue
		}
		seen[k] = true
		if count := mainstem.Version(max(w.Count, 1)); w.Op == mainstem.OpPut && r.Versions[i] > count && !m.holdsRecords(w.Space, w.Key) {
			m.model.Raise(w.Space, w.Key, r.Versions[i]-count)
		}
	}
}

// pass lets time go by for both and sweeps both.
func (m *machine) pass(d time.Duration) error {
	if !m.sweeps() {
		return nil
	}
	m.env.f.Clock.Advance(d)
	if d > time.Minute {
		m.odd = true
		m.ages()
	}
	return m.sweepBoth()
}

// restart closes and reopens both, with a call of between.
func (m *machine) restart(between func()) error {
	if err := (snapshotStep{}).end(m); err != nil {
		return err
	}
	if err := errors.Join(m.env.closed(), m.model.Close()); err != nil {
		return err
	}
	between()
	m.ages()
	m.env.log = m.env.reopen(m.env.log)
	m.model = m.model.Reopen()
	return nil
}
