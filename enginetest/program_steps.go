package enginetest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
)

// universe is what programs write to. The policies are fixed, so that a space
// that is dropped and created again is what it was.
var universe = []struct {
	name   string
	policy mainstem.Policy
}{
	{"a", mainstem.Policy{}},
	{"a2", mainstem.Policy{History: 1, TombstoneAge: -1}},
	{"a/b", mainstem.Policy{History: 3, TombstoneAge: -1}},
	{"quiet", mainstem.Policy{NoFeed: true}},
	{"quiet1", mainstem.Policy{NoFeed: true, History: 1, TombstoneAge: -1}},
	{"quiet2", mainstem.Policy{NoFeed: true, History: 2, TombstoneAge: -1}},
	{"aging", mainstem.Policy{History: 2, TombstoneAge: -1, MaxAge: 45 * time.Second}},
}

// keys are the keys of every space: prefixes of each other, and bytes that
// encodings escape.
var keys = []string{"k", "k\x00", "k\x00\xff", "kk", "\xff", "\x00", "a"}

func key(i int) []byte { return []byte(keys[i]) }

// getStep gets one key.
type getStep struct{ space, key int }

func (s getStep) String() string {
	return fmt.Sprintf("get %s/%q", universe[s.space].name, keys[s.key])
}
func (s getStep) smaller() []step { return nil }
func (s getStep) run(m *machine) error {
	space := universe[s.space].name
	got, err := m.env.log.Get(m.ctx, space, key(s.key))
	want, wantErr := m.model.Get(m.ctx, space, key(s.key))
	return m.sameRecords([]mainstem.Record{got}, err, []mainstem.Record{want}, wantErr, 0)
}

// manyStep gets several keys at once.
type manyStep struct {
	space int
	keys  []int
}

func (s manyStep) String() string {
	names := make([]string, len(s.keys))
	for i, k := range s.keys {
		names[i] = keys[k]
	}
	return fmt.Sprintf("get many %s %q", universe[s.space].name, names)
}
func (s manyStep) smaller() (out []step) {
	for i := range s.keys {
		out = append(out, manyStep{s.space, slices.Delete(slices.Clone(s.keys), i, i+1)})
	}
	return out
}
func (s manyStep) run(m *machine) error {
	space, names := universe[s.space].name, make([][]byte, len(s.keys))
	for i, k := range s.keys {
		names[i] = key(k)
	}
	got, err := collect(m.env.log.GetMany(m.ctx, space, names))
	want, wantErr := collect(m.model.GetMany(m.ctx, space, names))
	return m.sameRecords(got, err, want, wantErr, 0)
}

// scanStep scans a space.
type scanStep struct {
	space int
	r     mainstem.Range
}

func (s scanStep) String() string {
	return fmt.Sprintf("scan %s, prefix %q, from %q, to %q, reverse %v, limit %d, keys only %v, tombstones %v",
		universe[s.space].name, s.r.Prefix, s.r.Start, s.r.End, s.r.Reverse, s.r.Limit, s.r.KeysOnly, s.r.Tombstones)
}
func (s scanStep) smaller() []step {
	if s.r.Limit == 0 && !s.r.Reverse && s.r.Prefix == nil && s.r.Start == nil && s.r.End == nil {
		return nil
	}
	return []step{scanStep{s.space, mainstem.Range{Tombstones: s.r.Tombstones, KeysOnly: s.r.KeysOnly}}}
}
func (s scanStep) run(m *machine) error {
	space := universe[s.space].name
	got, err := collect(m.env.log.Scan(m.ctx, space, s.r))
	want, wantErr := collect(m.model.Scan(m.ctx, space, s.r))
	return m.sameRecords(got, err, want, wantErr, 0)
}

// readStep reads one key. From and To are relative to its newest version.
type readStep struct {
	space, key int
	from, to   int // 0 means none, n means the n-th version before the newest plus 1
	reverse    bool
	limit      int
}

func (s readStep) String() string {
	return fmt.Sprintf("read %s/%q from newest-%d to newest-%d (0: none), reverse %v, limit %d", universe[s.space].name, keys[s.key], s.from-1, s.to-1, s.reverse, s.limit)
}
func (s readStep) smaller() []step {
	if all := (readStep{space: s.space, key: s.key}); s != all {
		return []step{all}
	}
	return nil
}
func (s readStep) run(m *machine) error {
	space := universe[s.space].name
	newest := m.model.Version(space, key(s.key))
	version := func(n int) mainstem.Version {
		if n == 0 || mainstem.Version(n) > newest {
			return 0
		}
		return newest - mainstem.Version(n) + 2
	}
	v := mainstem.Versions{From: version(s.from), To: version(s.to), Reverse: s.reverse, Limit: s.limit}
	got, err := collect(m.env.log.Read(m.ctx, space, key(s.key), v))
	want, wantErr := collect(m.model.Read(m.ctx, space, key(s.key), v))
	return m.sameRecords(got, err, want, wantErr, 0)
}

// feedStep reads a feed, after the n-th of the positions known so far.
type feedStep struct {
	spaces []string
	prefix string
	after  int // 0 means from the first
	limit  int
}

func (s feedStep) String() string {
	return fmt.Sprintf("feed of %q, prefix %q, after the %d. position known, limit %d", s.spaces, s.prefix, s.after, s.limit)
}
func (s feedStep) smaller() []step {
	if s.spaces == nil && s.prefix == "" && s.after == 0 && s.limit == 0 {
		return nil
	}
	return []step{feedStep{}}
}
func (s feedStep) run(m *machine) error {
	var in, of mainstem.Filter
	in = mainstem.Filter{Spaces: s.spaces, Limit: s.limit}
	if s.prefix != "" {
		in.KeyPrefix = []byte(s.prefix)
	}
	of = in
	if known := slices.Sorted(maps.Keys(m.at)); s.after > 0 && len(known) > 0 {
		of.After = known[s.after%len(known)]
		in.After = m.at[of.After]
	}
	got, err := collect(m.env.log.Feed(m.ctx, in))
	if err == nil {
		if err := checkAscending(got); err != nil {
			return err
		}
	}
	want, wantErr := collect(m.model.Feed(m.ctx, of))
	return m.sameRecords(got, err, want, wantErr, s.limit)
}

// infoStep compares the statistics of a space.
type infoStep struct{ space int }

func (s infoStep) String() string  { return "describe space " + universe[s.space].name }
func (s infoStep) smaller() []step { return nil }
func (s infoStep) run(m *machine) error {
	u := universe[s.space]
	got, err := m.env.log.Space(m.ctx, u.name)
	want, wantErr := m.model.Space(m.ctx, u.name)
	if err := sameError(err, wantErr); err != nil || wantErr != nil {
		return err
	}
	if got.Name != want.Name || !got.Policy.Equal(want.Policy) {
		return fmt.Errorf("it is %q with %+v, want %+v", got.Name, got.Policy, want.Policy)
	}
	if u.policy.MaxAge == 0 && (got.Keys != want.Keys || got.Records != want.Records || got.Bytes != want.Bytes) {
		return fmt.Errorf("it has %d keys, %d records, %d bytes; want %d, %d, %d", got.Keys, got.Records, got.Bytes, want.Keys, want.Records, want.Bytes)
	}
	if (got.Last == 0) != (want.Last == 0) {
		return fmt.Errorf("its newest position is %d, want %d", got.Last, want.Last)
	}
	return nil
}

// listStep lists the spaces.
type listStep struct{ prefix string }

func (s listStep) String() string  { return fmt.Sprintf("list spaces with prefix %q", s.prefix) }
func (s listStep) smaller() []step { return nil }
func (s listStep) run(m *machine) error {
	names := func(log mainstem.Log) (out []string, err error) {
		for in, err := range log.Spaces(m.ctx, s.prefix) {
			if err != nil {
				return nil, err
			}
			out = append(out, in.Name)
		}
		return out, nil
	}
	got, err := names(m.env.log)
	want, wantErr := names(m.model)
	if err := sameError(err, wantErr); err != nil {
		return err
	}
	if d := difference(got, want); d != "" {
		return errors.New(d)
	}
	return nil
}

// headStep compares whether the newest position is that of the newest record.
type headStep struct{}

func (headStep) String() string  { return "head" }
func (headStep) smaller() []step { return nil }
func (headStep) run(m *machine) error {
	got, err := m.env.log.Head(m.ctx)
	want, wantErr := m.model.Head(m.ctx)
	if err := sameError(err, wantErr); err != nil {
		return err
	}
	if p, known := m.at[want]; known && got != p || (got == 0) != (want == 0) {
		return fmt.Errorf("it is %d, want %d", got, p)
	}
	return nil
}

// createStep creates a space, dropStep drops one, alterStep alters one.
type createStep struct{ space int }

func (s createStep) String() string  { return "create space " + universe[s.space].name }
func (s createStep) smaller() []step { return nil }
func (s createStep) run(m *machine) error {
	u := universe[s.space]
	return sameError(m.env.log.CreateSpace(m.ctx, u.name, u.policy), m.model.CreateSpace(m.ctx, u.name, u.policy))
}

type dropStep struct{ space int }

func (s dropStep) String() string  { return "drop space " + universe[s.space].name }
func (s dropStep) smaller() []step { return nil }
func (s dropStep) run(m *machine) error {
	name := universe[s.space].name
	return sameError(m.env.log.DropSpace(m.ctx, name), m.model.DropSpace(m.ctx, name))
}

type alterStep struct {
	space   int
	mark    string
	flip    bool // try to change what may not change
	extreme int  // index of extremes
}

// extremes are ends of the ranges of a policy's fields, and what is beyond them. None
// removes a record while a program runs.
var extremes = []struct {
	name string
	set  func(*mainstem.Policy)
}{
	{"none", func(*mainstem.Policy) {}},
	{"MaxAge largest", func(p *mainstem.Policy) { p.MaxAge = math.MaxInt64 }},
	{"MaxAge nearly largest", func(p *mainstem.Policy) { p.MaxAge = math.MaxInt64 - 1 }},
	{"MaxAge negative", func(p *mainstem.Policy) { p.MaxAge = -1 }},
	{"MaxAge smallest", func(p *mainstem.Policy) { p.MaxAge = math.MinInt64 }},
	{"MaxBytes largest", func(p *mainstem.Policy) { p.MaxBytes = math.MaxInt64 }},
	{"MaxBytes nearly largest", func(p *mainstem.Policy) { p.MaxBytes = math.MaxInt64 - 1 }},
	{"MaxBytes negative", func(p *mainstem.Policy) { p.MaxBytes = -1 }},
	{"MaxBytes smallest", func(p *mainstem.Policy) { p.MaxBytes = math.MinInt64 }},
	{"TombstoneAge largest", func(p *mainstem.Policy) { p.TombstoneAge = math.MaxInt64 }},
	{"TombstoneAge nearly largest", func(p *mainstem.Policy) { p.TombstoneAge = math.MaxInt64 - 1 }},
	{"TombstoneAge smallest", func(p *mainstem.Policy) { p.TombstoneAge = math.MinInt64 }},
	{"History negative", func(p *mainstem.Policy) { p.History = -1 }},
	{"History beyond its limit", func(p *mainstem.Policy) { p.History = mainstem.MaxHistory + 1 }},
	{"History largest int", func(p *mainstem.Policy) { p.History = math.MaxInt }},
	{"all largest", func(p *mainstem.Policy) {
		p.MaxAge, p.MaxBytes, p.TombstoneAge = math.MaxInt64, math.MaxInt64, math.MaxInt64
	}},
}

func (s alterStep) String() string {
	return fmt.Sprintf("alter space %s, mark %q, impossibly %v, extreme %s", universe[s.space].name, s.mark, s.flip, extremes[s.extreme].name)
}
func (s alterStep) smaller() []step { return nil }
func (s alterStep) run(m *machine) error {
	u := universe[s.space]
	p := u.policy
	p.Metadata = map[string]string{"mark": s.mark}
	if s.flip {
		p.NoFeed = !p.NoFeed
	}
	extremes[s.extreme].set(&p)
	return sameError(m.env.log.AlterSpace(m.ctx, u.name, p), m.model.AlterSpace(m.ctx, u.name, p))
}

// restartStep closes and reopens both.
type restartStep struct{}

func (restartStep) String() string  { return "close and reopen" }
func (restartStep) smaller() []step { return nil }
func (restartStep) run(m *machine) error {
	if err := m.restart(func() {}); err != nil {
		return err
	}
	if !m.odd {
		return nil
	}
	return m.sweepBoth() // a jump that was held is believed now
}

// passStep lets time go by and sweeps.
type passStep struct{ d time.Duration }

func (s passStep) String() string       { return fmt.Sprintf("let %v pass, sweep", s.d) }
func (s passStep) smaller() []step      { return nil }
func (s passStep) run(m *machine) error { return m.pass(s.d) }

// snapshotStep takes a snapshot of both, or compares and closes those taken before.
type snapshotStep struct{}

func (snapshotStep) String() string  { return "take a snapshot, or compare and close the one taken" }
func (snapshotStep) smaller() []step { return nil }
func (s snapshotStep) run(m *machine) (err error) {
	if !m.env.f.Snapshot {
		return nil
	}
	if m.snapshots.model != nil {
		return s.end(m)
	}
	if m.snapshots.model, err = m.model.Snapshot(m.ctx); err != nil {
		return err
	}
	m.snapshots.engine, err = m.env.log.(mainstem.Snapshotter).Snapshot(m.ctx)
	return err
}

func (snapshotStep) end(m *machine) error {
	engine, of := m.snapshots.engine, m.snapshots.model
	if of == nil {
		return nil
	}
	m.snapshots.engine, m.snapshots.model = nil, nil
	defer engine.Close()
	got, err := collect(engine.Feed(m.ctx, mainstem.Filter{}))
	want, wantErr := collect(of.Feed(m.ctx, mainstem.Filter{}))
	if err := m.sameRecords(got, err, want, wantErr, 0); err != nil {
		return fmt.Errorf("the feed of the snapshot: %w", err)
	}
	for _, u := range universe {
		got, err := collect(engine.Scan(m.ctx, u.name, mainstem.Range{Tombstones: true}))
		want, wantErr := collect(of.Scan(m.ctx, u.name, mainstem.Range{Tombstones: true}))
		if err := m.sameRecords(got, err, want, wantErr, 0); err != nil {
			return fmt.Errorf("a scan of %s in the snapshot: %w", u.name, err)
		}
		for i := range keys {
			got, err := collect(engine.Read(m.ctx, u.name, key(i), mainstem.Versions{}))
			want, wantErr := collect(of.Read(m.ctx, u.name, key(i), mainstem.Versions{}))
			if err := m.sameRecords(got, err, want, wantErr, 0); err != nil {
				return fmt.Errorf("a read of %s/%q in the snapshot: %w", u.name, keys[i], err)
			}
		}
	}
	return engine.Close()
}
