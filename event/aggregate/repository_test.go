package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func TestSaveAndLoad(t *testing.T) { onEach(t, testSaveAndLoad) }

func testSaveAndLoad(t *testing.T, f *fixture) {
	r := f.accounts(t, nil)
	if _, err := r.Load(t.Context(), "1"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Fatalf("loaded what is not there: %v", err)
	}
	if _, err := r.Update(t.Context(), "1", deposit(1)); !errors.Is(err, mainstem.ErrNotFound) {
		t.Fatalf("updated what is not there: %v", err)
	}
	a, err := r.LoadOrNew(t.Context(), "1")
	if err != nil || a.ID() != "1" || a.Version() != 0 {
		t.Fatalf("new: %+v, %v", a, err)
	}
	ctx := event.WithMetadata(t.Context(), event.Metadata{UserID: "ann", CorrelationID: "c1"})
	if done, err := r.Save(ctx, a); err != nil || done.First != 0 {
		t.Fatalf("a save of nothing: %+v, %v", done, err)
	}
	if err := errors.Join(aggregate.Raise(a, Opened{"ann"}), a.Deposit(100), a.Withdraw(30)); err != nil {
		t.Fatal(err)
	}
	if err := a.Withdraw(71); !errors.Is(err, errPoor) {
		t.Fatalf("withdrew too much: %v", err)
	}
	if got := a.Uncommitted(); !cmp.Equal(got, []any{Opened{"ann"}, Deposited{100}, Withdrawn{30}}) {
		t.Fatalf("uncommitted: %v", got)
	}
	a.SetMetadata(event.Metadata{UserID: "bob"})
	done, err := r.Save(ctx, a)
	if err != nil || done.Stream != "account-1" || done.First != 1 || done.Last != 3 || done.LastPosition == 0 || a.Version() != 3 || len(a.Uncommitted()) != 0 {
		t.Fatalf("saved %+v, %v; now at version %d", done, err, a.Version())
	}
	evs, err := f.store.Load(t.Context(), "account-1", nil)
	if err != nil || len(evs) != 3 {
		t.Fatal(len(evs), err)
	}
	for _, ev := range evs {
		if ev.Metadata.UserID != "bob" || ev.Metadata.CorrelationID != "c1" || ev.ID.IsZero() {
			t.Errorf("metadata %+v, ID %s", ev.Metadata, ev.ID)
		}
	}
	withBalance(t, r, "1", 3, 70)
	if done, err := r.Update(t.Context(), "1", deposit(5)); err != nil || done.Last != 4 {
		t.Fatal(done, err)
	}
	if done, err := r.Update(t.Context(), "1", func(*Account) error { return nil }); err != nil || done.First != 0 || done.Last != 4 {
		t.Fatalf("an update without events: %+v, %v", done, err)
	}
	if _, err := r.Update(t.Context(), "1", func(a *Account) error { return a.Withdraw(1000) }); !errors.Is(err, errPoor) {
		t.Fatal(err)
	}
	withBalance(t, r, "1", 4, 75)
	if _, err := r.UpdateOrNew(t.Context(), "2", deposit(1)); err != nil {
		t.Fatal(err)
	}
	withBalance(t, r, "2", 1, 1)
}

func TestConflict(t *testing.T) { onEach(t, testConflict) }

func testConflict(t *testing.T, f *fixture) {
	r := f.accounts(t, nil)
	if _, err := r.UpdateOrNew(t.Context(), "1", deposit(1)); err != nil {
		t.Fatal(err)
	}
	a, b := withBalance(t, r, "1", 1, 1), withBalance(t, r, "1", 1, 1)
	if err := errors.Join(a.Deposit(10), b.Deposit(100)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Save(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	var conflict *event.ConflictError
	if _, err := r.Save(t.Context(), b); !errors.As(err, &conflict) || conflict.Actual != 2 || conflict.Expected != event.AtVersion(1) {
		t.Fatalf("the second save of one state: %v", err)
	}
	if b.Version() != 1 || !cmp.Equal(b.Uncommitted(), []any{Deposited{100}}) {
		t.Errorf("after the conflict it is at version %d with %v", b.Version(), b.Uncommitted())
	}
	withBalance(t, r, "1", 2, 11)

	// A new decision sees the new state, and is made as often as the options say.
	for _, c := range []struct{ retries, calls int }{{0, aggregate.DefaultRetries + 1}, {-1, 1}, {1, 2}} {
		r := f.accounts(t, &aggregate.Options{Retries: c.retries})
		calls := 0
		_, err := r.Update(t.Context(), "1", func(a *Account) error {
			calls++
			_, err := r.Update(t.Context(), "1", deposit(1)) // somebody is faster, each time
			return errors.Join(err, a.Deposit(1000))
		})
		if !errors.As(err, &conflict) || calls != c.calls {
			t.Errorf("retries %d: %d calls, %v; want %d calls and a conflict", c.retries, calls, err, c.calls)
		}
	}
	other := fmt.Errorf("mine: %w", mainstem.ErrConflict)
	calls := 0
	if _, err := r.Update(t.Context(), "1", func(*Account) error { calls++; return other }); err != other || calls != 1 { //nolint:errorlint // the very error
		t.Errorf("a conflict that the function returned: %v after %d calls", err, calls)
	}
}

// Many concurrent writers of one aggregate lose no update, with and without cached states.
func TestManyWriters(t *testing.T) {
	for _, cached := range []int{0, 1, 100} {
		t.Run(fmt.Sprint("cache ", cached), func(t *testing.T) {
			onEach(t, func(t *testing.T, f *fixture) { manyWriters(t, f, cached) })
		})
	}
}

func manyWriters(t *testing.T, f *fixture, cached int) {
	r := f.accounts(t, &aggregate.Options{Retries: 1 << 20, Cache: cached, SnapshotEvery: 7})
	d := f.deciders(t, &aggregate.Options{Retries: 1 << 20, Cache: cached, SnapshotEvery: 5, SnapshotVersion: 2})
	const writers = 6
	rounds := testengines.Rounds(f.log.Log, 40)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				var err error
				if id := fmt.Sprint(i % 2); w%2 == 0 {
					_, err = r.UpdateOrNew(t.Context(), id, deposit(1))
				} else {
					_, err = d.Handle(t.Context(), id, 1)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := writers * rounds / 2
	for _, id := range []string{"0", "1"} {
		withBalance(t, r, id, mainstem.Version(want), want)
		if a, v, err := d.Load(t.Context(), id); err != nil || int(v) != want || a.Balance != want {
			t.Errorf("the decider has %+v at %d, %v", a, v, err)
		}
	}
}

// A commit whose outcome is unknown is repeated, and its events are appended once.
func TestUnknownOutcome(t *testing.T) {
	unknown := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.Unknown}
	for _, written := range []bool{true, false} {
		f := newFixture(t)
		fails, ids := 3, map[string]int{}
		cancel := func() {}
		f.log.commit = func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			ids[b.ID]++
			if fails--; fails < 0 {
				return f.log.Log.Commit(ctx, b)
			}
			if fails == 1<<30-2 { // the second try of what never succeeds
				cancel()
			}
			if written {
				if _, err := f.log.Log.Commit(ctx, b); err != nil {
					return mainstem.Receipt{}, err
				}
			}
			return mainstem.Receipt{}, unknown
		}
		r := f.accounts(t, nil)
		done, err := r.UpdateOrNew(t.Context(), "1", deposit(5))
		if err != nil || done.First != 1 || done.Last != 1 || done.Duplicate {
			t.Fatalf("written %v: %+v, %v", written, done, err)
		}
		if len(ids) != 1 || ids[""] != 0 {
			t.Errorf("written %v: the batch IDs were %v, want one", written, ids)
		}
		withBalance(t, r, "1", 1, 5)

		fails = 1 << 30
		ctx, end := context.WithCancel(t.Context())
		cancel = end
		if _, err := r.Update(ctx, "1", deposit(5)); !errors.Is(err, mainstem.ErrUnknownOutcome) {
			t.Errorf("written %v: when the context ends: %v, want outcome unknown", written, err)
		}
		end()
	}
}

func TestIntoABatch(t *testing.T) { onEach(t, testIntoABatch) }

func testIntoABatch(t *testing.T, f *fixture) {
	r := f.accounts(t, &aggregate.Options{SnapshotEvery: 2})
	a := r.New("1")
	if err := errors.Join(a.Deposit(1), a.Deposit(2)); err != nil {
		t.Fatal(err)
	}
	b := mainstem.NewBatch()
	if err := errors.Join(r.SaveTo(t.Context(), b, r.New("3")), r.SaveTo(t.Context(), b, a)); err != nil { // the first adds nothing
		t.Fatal(err)
	}
	b.Ensure("other", mainstem.Policy{})
	b.Put("other", []byte("k"), []byte("v"))
	receipt, err := f.log.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Uncommitted()) != 2 || a.Version() != 0 {
		t.Error("SaveTo changed the aggregate before the commit")
	}
	done, ok := f.store.Result(b, receipt, "account-1")
	if !ok {
		t.Fatal("no events in the batch")
	}
	a.Clear(done.Last)
	if _, err := f.store.Snapshot(t.Context(), "account-1", 0); err != nil {
		t.Errorf("the snapshot that was due: %v", err)
	}
	if err := a.Deposit(4); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Save(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	withBalance(t, r, "1", 3, 7)

	// UpdateTo depends on what it read, whether it raises or not.
	for _, cents := range []int{0, 5} {
		b := mainstem.NewBatch()
		_, err := r.UpdateTo(t.Context(), b, "1", func(a *Account) error {
			if cents == 0 {
				return nil
			}
			return a.Deposit(cents)
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Put("other", []byte("k"), []byte("w"))
		if _, err := r.Update(t.Context(), "1", deposit(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.log.Commit(t.Context(), b); !errors.Is(err, mainstem.ErrConflict) {
			t.Errorf("deposit of %d on a state that is over: %v", cents, err)
		}
	}
	twice := mainstem.NewBatch()
	if v, err := r.UpdateOrNewTo(t.Context(), twice, "5", deposit(1)); err != nil || v != 1 {
		t.Fatal(v, err)
	}
	if _, err := r.UpdateOrNewTo(t.Context(), twice, "5", deposit(1)); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a second decision in one batch: %v", err)
	}
	again := mainstem.NewBatch()
	if _, err := r.UpdateOrNewTo(t.Context(), again, "5", deposit(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.UpdateOrNewTo(t.Context(), again, "5", func(*Account) error { return nil }); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a second decision, for nothing, on the state before the first: %v", err)
	}
	if _, err := f.log.Commit(t.Context(), again); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a batch with two decisions: %v", err)
	}
	bad := mainstem.NewBatch()
	wrong := r.New("4")
	if err := wrong.Deposit(1); err != nil {
		t.Fatal(err)
	}
	unregistered, err := aggregate.Open(f.store, event.NewTypes(nil), "account", newAccount, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := unregistered.SaveTo(t.Context(), bad, wrong); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("save events of types that are not registered: %v", err)
	}
	if _, err := f.log.Commit(t.Context(), bad); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("events of types that are not registered: %v", err)
	}
}

// TestSaveAfterAnIndexWasMade saves by a handle that does not know yet that the store has an index.
func TestSaveAfterAnIndexWasMade(t *testing.T) {
	f := newFixture(t)
	r := f.accounts(t, nil)
	a := r.New("1")
	if err := a.Deposit(5); err != nil {
		t.Fatal(err)
	}
	if _, err := event.OpenIndexed(t.Context(), f.log, "bank", nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Save(t.Context(), a); err != nil {
		t.Error(err)
	}
	withBalance(t, r, "1", 1, 5)
}

// TestMetadataOfAnotherEvent saves events with the metadata of one that has another schema version.
// Only the type of an event decides which version it has.
func TestMetadataOfAnotherEvent(t *testing.T) {
	f := newFixture(t)
	r := f.accounts(t, nil)
	other := event.Metadata{UserID: "ann", Custom: map[string]string{event.SchemaName: "9", "k": "v"}}
	if _, err := r.UpdateOrNew(event.WithMetadata(t.Context(), other), "1", deposit(5)); err != nil {
		t.Fatal(err)
	}
	withBalance(t, r, "1", 1, 5)
	evs, err := f.store.Load(t.Context(), "account-1", nil)
	if err != nil || len(evs) != 1 || evs[0].Metadata.UserID != "ann" || !maps.Equal(evs[0].Metadata.Custom, map[string]string{"k": "v"}) {
		t.Errorf("saved %+v, %v", evs, err)
	}
	if len(other.Custom) != 2 {
		t.Errorf("the metadata of the context was changed: %v", other.Custom)
	}
}

// Streams that were deleted, and that began again.
func TestEnds(t *testing.T) { onEach(t, testEnds) }

func testEnds(t *testing.T, f *fixture) {
	r := f.accounts(t, &aggregate.Options{SnapshotEvery: 2})
	for range 3 {
		if _, err := r.UpdateOrNew(t.Context(), "1", deposit(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.store.Delete(t.Context(), "account-1", event.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Load(t.Context(), "1"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	a, err := r.LoadOrNew(t.Context(), "1")
	if err != nil || a.Balance != 0 {
		t.Fatalf("begun again: %+v, %v", a, err)
	}
	for range 5 {
		if _, err := r.UpdateOrNew(t.Context(), "1", deposit(10)); err != nil {
			t.Fatal(err)
		}
	}
	withBalance(t, r, "1", 9, 50)
	if err := f.store.Archive(t.Context(), "account-1"); err != nil {
		t.Fatal(err)
	}
	var sealed *event.SealedError
	calls := 0
	_, err = r.Update(t.Context(), "1", func(a *Account) error { calls++; return a.Deposit(1) })
	if !errors.As(err, &sealed) || calls != 1 {
		t.Errorf("an archived stream: %v after %d decisions", err, calls)
	}
}

func TestOpenRefuses(t *testing.T) {
	f := newFixture(t)
	for what, err := range map[string]error{
		"no store":         second(aggregate.Open(nil, f.types, "account", newAccount, nil)),
		"no types":         second(aggregate.Open(f.store, nil, "account", newAccount, nil)),
		"no maker":         second(aggregate.Open[*Account](f.store, f.types, "account", nil, nil)),
		"no category":      second(aggregate.Open(f.store, f.types, "", newAccount, nil)),
		"hyphen":           second(aggregate.Open(f.store, f.types, "savings-account", newAccount, nil)),
		"snapshot every":   second(aggregate.Open(f.store, f.types, "account", newAccount, &aggregate.Options{SnapshotEvery: -1})),
		"snapshot version": second(aggregate.Open(f.store, f.types, "account", newAccount, &aggregate.Options{SnapshotVersion: -1})),
		"retries":          second(aggregate.Open(f.store, f.types, "account", newAccount, &aggregate.Options{Retries: -2})),
		"cache":            second(aggregate.Open(f.store, f.types, "account", newAccount, &aggregate.Options{Cache: -1})),
		"no functions":     second(aggregate.OpenDecider(f.store, f.types, "account", aggregate.Decider[int, int, any]{}, nil)),
	} {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", what, err)
		}
	}
	r := f.accounts(t, nil)
	if _, err := r.Load(t.Context(), ""); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("an empty ID: %v", err)
	}
	if _, err := r.LoadAt(t.Context(), "1", aggregate.AtVersion(0)); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("at version 0: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
