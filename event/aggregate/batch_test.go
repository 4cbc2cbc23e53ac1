package aggregate_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/aggregate"
)

// brittle is an aggregate, and a state of a decider, whose snapshot fails once it has events.
type brittle struct {
	aggregate.Root
	count int
}

var errBrittle = errors.New("as asked")

func (b *brittle) Apply(any) error      { b.count++; return nil }
func (b *brittle) Restore([]byte) error { return nil }

func (b *brittle) Snapshot() ([]byte, error) {
	if b.count > 0 {
		return nil, errBrittle
	}
	return nil, nil
}

// A batch that holds events without the snapshot that was due fails, even if the caller ignores the
// error.
func TestBatchWithoutItsSnapshot(t *testing.T) {
	f := newFixture(t)
	o := &aggregate.Options{SnapshotEvery: 1}
	r, err := aggregate.Open(f.store, f.types, "brittle", func(string) *brittle { return new(brittle) }, o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := aggregate.OpenDecider(f.store, f.types, "fragile", aggregate.Decider[brittle, int, moved]{
		Initial: func() brittle { return brittle{} },
		Decide:  func(_ brittle, cents int) ([]moved, error) { return []moved{Deposited{cents}}, nil },
		Evolve:  func(b brittle, _ moved) brittle { b.count++; return b },
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	for what, add := range map[string]func(b *mainstem.Batch) error{
		"SaveTo": func(b *mainstem.Batch) error {
			a := r.New("1")
			return errors.Join(aggregate.Raise(a, Deposited{1}), r.SaveTo(t.Context(), b, a))
		},
		"UpdateOrNewTo": func(b *mainstem.Batch) error {
			return second(r.UpdateOrNewTo(t.Context(), b, "1", func(a *brittle) error { return aggregate.Raise(a, Deposited{1}) }))
		},
		"HandleTo": func(b *mainstem.Batch) error { return d.HandleTo(t.Context(), b, "1", 1) },
	} {
		b := mainstem.NewBatch()
		if err := add(b); !errors.Is(err, errBrittle) {
			t.Errorf("%s: %v, want the error of the snapshot", what, err)
		}
		if _, err := f.log.Commit(t.Context(), b); !errors.Is(err, errBrittle) {
			t.Errorf("%s: the commit: %v, want the error of the snapshot", what, err)
		}
	}
}

// An aggregate that is refused leaves the batch as it was.
func TestBatchAfterARefusal(t *testing.T) {
	f := newFixture(t)
	r, d := f.accounts(t, nil), f.deciders(t, nil)
	b := mainstem.NewBatch()
	_, missing := r.UpdateTo(t.Context(), b, "1", deposit(1))
	_, refused := r.UpdateOrNewTo(t.Context(), b, "1", func(a *Account) error { return a.Withdraw(1) })
	decided := d.HandleTo(t.Context(), b, "1", -1)
	if !errors.Is(missing, mainstem.ErrNotFound) || !errors.Is(refused, errPoor) || !errors.Is(decided, errPoor) {
		t.Errorf("%v, %v, %v", missing, refused, decided)
	}
	if err := b.Err(); err != nil || b.Len() != 0 {
		t.Error(fmt.Errorf("the batch has %d writes: %w", b.Len(), err))
	}
}

// SaveTo writes a snapshot each time the interval is reached, and not with each save after it. A
// snapshot whose batch was not committed is written by a later save.
func TestSnapshotsOfSaveTo(t *testing.T) {
	f := newFixture(t)
	r := f.accounts(t, &aggregate.Options{SnapshotEvery: 3})
	a := r.New("1")
	for i := 1; i <= 8; i++ {
		if err := a.Deposit(1); err != nil {
			t.Fatal(err)
		}
		lost, b := mainstem.NewBatch(), mainstem.NewBatch()
		if err := errors.Join(r.SaveTo(t.Context(), lost, a), r.SaveTo(t.Context(), b, a)); err != nil {
			t.Fatal(err)
		}
		receipt, err := f.log.Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		done, _ := r.Result(b, receipt, "1")
		a.Clear(done.Last)
		snap, err := f.store.Snapshot(t.Context(), "account-1", 0)
		want := mainstem.Version(i) / 3 * 3
		if want == 0 && !errors.Is(err, mainstem.ErrNotFound) || want != 0 && (err != nil || snap.Version != want) {
			t.Fatalf("after %d events there is a snapshot of version %d, %v: want %d", i, snap.Version, err, want)
		}
	}
}
