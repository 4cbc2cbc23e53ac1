package aggregate_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/codec/cbor"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
)

func TestSnapshots(t *testing.T) { onEach(t, testSnapshots) }

func testSnapshots(t *testing.T, f *fixture) {
	r := f.accounts(t, &aggregate.Options{SnapshotEvery: 10})
	for i := range 25 {
		if _, err := r.UpdateOrNew(t.Context(), "1", deposit(i)); err != nil {
			t.Fatal(err)
		}
		snap, err := f.store.Snapshot(t.Context(), "account-1", 0)
		want := mainstem.Version(i+1) / 10 * 10
		if want == 0 && !errors.Is(err, mainstem.ErrNotFound) || want != 0 && (err != nil || snap.Version != want) {
			t.Fatalf("after %d events there is a snapshot of version %d, %v: want %d", i+1, snap.Version, err, want)
		}
	}
	withBalance(t, r, "1", 25, 300)

	// The state is that of the snapshot, and not only of the events after it.
	if err := f.store.Truncate(t.Context(), "account-1", 21); err != nil {
		t.Fatal(err)
	}
	withBalance(t, r, "1", 25, 300)
	for what, o := range map[string]*aggregate.Options{
		"none":           nil,
		"another form":   {SnapshotEvery: 10, SnapshotVersion: 1},
		"another codec":  {SnapshotEvery: 10, SnapshotCodec: cbor.Codec},
		"another stride": {SnapshotEvery: 3},
	} {
		a, err := f.accounts(t, o).Load(t.Context(), "1")
		var gap *aggregate.GapError
		if what == "another stride" {
			if err != nil || a.Balance != 300 {
				t.Errorf("%s: %+v, %v", what, a, err)
			}
		} else if !errors.As(err, &gap) || gap.First != 21 {
			t.Errorf("%s: %v, want a gap: the events before version 21 are not held", what, err)
		}
	}
}

// A snapshot of another version is ignored, and replaced when the next one is due.
func TestSnapshotVersions(t *testing.T) { onEach(t, testSnapshotVersions) }

func testSnapshotVersions(t *testing.T, f *fixture) {
	old, now := f.accounts(t, &aggregate.Options{SnapshotEvery: 3}), f.accounts(t, &aggregate.Options{SnapshotEvery: 3, SnapshotVersion: 1})
	for range 4 {
		if _, err := old.UpdateOrNew(t.Context(), "1", deposit(1)); err != nil {
			t.Fatal(err)
		}
	}
	b := mainstem.NewBatch() // a snapshot of the old form that would change the state
	f.store.SaveSnapshotTo(b, event.Snapshot{Stream: "account-1", Version: 4, Type: "account@0/json", Data: []byte(`{"Balance":1000}`)})
	if _, err := f.log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	withBalance(t, old, "1", 4, 1000)
	withBalance(t, now, "1", 4, 4)
	if _, err := now.Update(t.Context(), "1", deposit(1)); err != nil {
		t.Fatal(err)
	}
	if snap, err := f.store.Snapshot(t.Context(), "account-1", 0); err != nil || snap.Version != 5 || snap.Type != "account@1/json" {
		t.Errorf("the snapshot is %+v, %v", snap, err)
	}
	withBalance(t, now, "1", 5, 5)
}

func TestLoadAt(t *testing.T) { onEach(t, testLoadAt) }

func testLoadAt(t *testing.T, f *fixture) {
	r := f.accounts(t, &aggregate.Options{SnapshotEvery: 3})
	type moment struct {
		done    event.Appended
		balance int
	}
	var moments []moment
	for i := range 10 {
		done, err := r.UpdateOrNew(t.Context(), "1", deposit(i))
		if err != nil {
			t.Fatal(err)
		}
		moments = append(moments, moment{done, i * (i + 1) / 2})
		if _, err := r.UpdateOrNew(t.Context(), "other", deposit(1)); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range moments {
		a, err := r.LoadAt(t.Context(), "1", aggregate.AtVersion(m.done.Last))
		b, err2 := r.LoadAt(t.Context(), "1", aggregate.AtPosition(m.done.LastPosition+1)) // a position of another stream
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if a.Balance != m.balance || b.Balance != m.balance || a.Version() != mainstem.Version(i+1) || b.Version() != a.Version() {
			t.Errorf("version %d: balances %d and %d at versions %d and %d: want %d", i+1, a.Balance, b.Balance, a.Version(), b.Version(), m.balance)
		}
	}
	first := moments[0].done
	if _, err := r.LoadAt(t.Context(), "1", aggregate.AtTime(first.Time.Add(-time.Nanosecond))); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("before the first event: %v", err)
	}
	if a, err := r.LoadAt(t.Context(), "1", aggregate.AtTime(moments[9].done.Time)); err != nil || a.Balance != 45 {
		t.Errorf("at the time of the last: %+v, %v", a, err)
	}
	a, err := r.LoadAt(t.Context(), "1", aggregate.AtVersion(4))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Deposit(1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Save(t.Context(), a); !errors.Is(err, mainstem.ErrConflict) {
		t.Errorf("a decision on the past was saved: %v", err)
	}
}

// TestLoadAtOfATruncatedStream asks for states whose events were removed.
func TestLoadAtOfATruncatedStream(t *testing.T) { onEach(t, testLoadAtOfATruncatedStream) }

func testLoadAtOfATruncatedStream(t *testing.T, f *fixture) {
	r, d := f.accounts(t, nil), f.deciders(t, nil)
	other, err := r.UpdateOrNew(t.Context(), "other", deposit(1))
	if err != nil {
		t.Fatal(err)
	}
	var done [4]event.Appended
	for i := range done {
		if done[i], err = r.UpdateOrNew(t.Context(), "1", deposit(1)); err != nil {
			t.Fatal(err)
		}
	}
	if a, v, err := d.LoadAt(t.Context(), "1", aggregate.AtPosition(other.LastPosition)); err != nil || v != 0 || a.Balance != 0 {
		t.Errorf("before the first event: %+v at version %d, %v", a, v, err)
	}
	if err := f.store.Truncate(t.Context(), "account-1", 3); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]aggregate.Point{
		"version": aggregate.AtVersion(1), "position": aggregate.AtPosition(done[0].LastPosition), "time": aggregate.AtTime(done[0].Time),
	} {
		var gap *aggregate.GapError
		if _, err := r.LoadAt(t.Context(), "1", p); !errors.As(err, &gap) || gap.First != 3 {
			t.Errorf("%s, aggregate: %v", name, err)
		}
		if _, _, err := d.LoadAt(t.Context(), "1", p); !errors.As(err, &gap) || gap.First != 3 {
			t.Errorf("%s, decider: %v", name, err)
		}
	}
}

// private, nested and open lose state when a codec encodes them.
type (
	private struct {
		aggregate.Root
		count int
	}
	nested struct {
		aggregate.Root
		Lines map[string][]struct{ price int }
	}
	open struct {
		aggregate.Root
		Last any
	}
	whole struct {
		aggregate.Root
		At    time.Time
		Lines map[string]*[]struct{ Price int }
	}
	own    struct{ private }
	tagged struct {
		aggregate.Root `json:"-" cbor:"-"`
		Lines          []struct {
			Price int `json:"-" cbor:"price"`
		}
	}
	count    int
	embedded struct {
		aggregate.Root
		count
	}
	embeddedPointer struct {
		aggregate.Root
		*line
	}
	line struct{ Price int }
)

func (p *private) Apply(any) error { p.count++; return nil }
func (*nested) Apply(any) error    { return nil }
func (*open) Apply(any) error      { return nil }
func (*whole) Apply(any) error     { return nil }

func (*tagged) Apply(any) error          { return nil }
func (e *embedded) Apply(any) error      { e.count++; return nil }
func (*embeddedPointer) Apply(any) error { return nil }

func (o *own) Snapshot() ([]byte, error) { return binary.AppendUvarint(nil, uint64(o.count)), nil }

func (o *own) Restore(data []byte) error {
	n, size := binary.Uvarint(data)
	if size != len(data) {
		return errors.New("not a count")
	}
	o.count = int(n)
	return nil
}

func TestSnapshotsThatWouldLoseState(t *testing.T) {
	f := newFixture(t)
	o := &aggregate.Options{SnapshotEvery: 2}
	refused := func(err error, want string) {
		t.Helper()
		if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want Invalid that names %s", err, want)
		}
	}
	refused(second(aggregate.Open(f.store, f.types, "a", func(string) *private { return new(private) }, o)), "private.count")
	refused(second(aggregate.Open(f.store, f.types, "a", func(string) *nested { return new(nested) }, o)), "Lines.price")
	refused(second(aggregate.Open(f.store, f.types, "a", func(string) *open { return new(open) }, o)), "open.Last")
	refused(second(aggregate.Open(f.store, f.types, "a", newAccount, &aggregate.Options{SnapshotEvery: 2, SnapshotCodec: codec.Gob})), "aggregate.Root")
	refused(second(aggregate.Open(f.store, f.types, "a", func(string) *tagged { return new(tagged) }, o)), "Lines.Price, which its tag leaves out")
	refused(second(aggregate.Open(f.store, f.types, "a", func(string) *embedded { return new(embedded) }, o)), "embedded.count")
	refused(second(aggregate.Open(f.store, f.types, "a", func(string) *embeddedPointer { return new(embeddedPointer) }, o)), "embeddedPointer.line")
	if _, err := aggregate.Open(f.store, f.types, "a", func(string) *tagged { return new(tagged) }, &aggregate.Options{SnapshotEvery: 2, SnapshotCodec: cbor.Codec}); err != nil {
		t.Errorf("with a codec that reads other tags: %v", err)
	}
	if _, err := aggregate.Open(f.store, f.types, "a", func(string) *private { return new(private) }, nil); err != nil {
		t.Errorf("without snapshots: %v", err)
	}
	if _, err := aggregate.Open(f.store, f.types, "a", func(string) *whole { return new(whole) }, o); err != nil {
		t.Error(err)
	}
	r, err := aggregate.Open(f.store, f.types, "own", func(string) *own { return new(own) }, o)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := r.UpdateOrNew(t.Context(), "1", func(o *own) error { return aggregate.Raise(o, Deposited{1}) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.store.Truncate(t.Context(), "own-1", 5); err != nil {
		t.Fatal(err)
	}
	if a, err := r.Load(t.Context(), "1"); err != nil || a.count != 5 {
		t.Errorf("with a Snapshotter: %+v, %v", a, err)
	}
}

// With any options, a repository and a decider have the state that all events give.
func TestStatesByRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFixture(t)
		options := func(name string) *aggregate.Options {
			return &aggregate.Options{
				SnapshotEvery:   rapid.IntRange(0, 4).Draw(rt, name+" snapshots"),
				SnapshotVersion: rapid.IntRange(0, 1).Draw(rt, name+" version"),
				Cache:           rapid.IntRange(0, 2).Draw(rt, name+" cache"),
			}
		}
		repos := []*aggregate.Repository[*Account]{f.accounts(t, options("a")), f.accounts(t, options("b"))}
		d := f.deciders(t, options("d"))
		var balances []int // by version
		balance, ended := 0, false
		for range rapid.IntRange(0, 30).Draw(rt, "steps") {
			cents := rapid.IntRange(-4, 3).Draw(rt, "cents")
			var done event.Appended
			var err error
			if who := rapid.IntRange(0, 2).Draw(rt, "who"); who == 2 {
				done, err = d.Handle(t.Context(), "1", cents)
			} else {
				done, err = repos[who].UpdateOrNew(t.Context(), "1", func(a *Account) error {
					switch {
					case a.Ended:
						return aggregate.ErrTerminal
					case cents == 0:
						return nil
					case cents > 0:
						return a.Deposit(cents)
					case a.Balance == -cents:
						return errors.Join(a.Withdraw(-cents), aggregate.Raise(a, Closed{}))
					}
					return a.Withdraw(-cents)
				})
			}
			switch {
			case ended:
				if !errors.Is(err, aggregate.ErrTerminal) {
					rt.Fatalf("after the end: %v", err)
				}
				continue
			case balance+cents < 0:
				if !errors.Is(err, errPoor) {
					rt.Fatalf("balance %d, %d: %v", balance, cents, err)
				}
				continue
			case err != nil:
				rt.Fatal(err)
			}
			balance += cents
			if cents != 0 {
				balances = append(balances, balance)
			}
			if cents < 0 && balance == 0 {
				balances, ended = append(balances, 0), true
			}
			if int(done.Last) != len(balances) {
				rt.Fatalf("version %d after %d events", done.Last, len(balances))
			}
		}
		for v, want := range balances {
			at := aggregate.AtVersion(mainstem.Version(v + 1))
			a, err := repos[v%2].LoadAt(t.Context(), "1", at)
			s, version, err2 := d.LoadAt(t.Context(), "1", at)
			if errors.Join(err, err2) != nil || a.Balance != want || s.Balance != want || int(version) != v+1 {
				rt.Fatalf("at version %d: %+v, %v; %+v, %v; want a balance of %d", v+1, a, err, s, err2, want)
			}
		}
	})
}
