package aggregate_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The domain of the tests: an account.
type (
	Opened    struct{ Owner string }
	Deposited struct{ Cents int }
	Withdrawn struct{ Cents int }
	Closed    struct{}
)

// moved is implemented by the events of an account.
type moved interface{ happened(*Account) }

func (e Opened) happened(a *Account)    { a.Owner = e.Owner }
func (e Deposited) happened(a *Account) { a.Balance += e.Cents; a.Moves++ }
func (e Withdrawn) happened(a *Account) { a.Balance -= e.Cents; a.Moves++ }
func (Closed) happened(a *Account)      { a.Ended = true }

type Account struct {
	aggregate.Root
	Owner   string
	Balance int
	Moves   int
	Ended   bool
}

func (a *Account) Apply(ev any) error {
	m, ok := ev.(moved)
	if !ok {
		return errors.New("not an event of an account")
	}
	m.happened(a)
	return nil
}

var errPoor = errors.New("the balance is too low")

func (a *Account) Deposit(cents int) error { return aggregate.Raise(a, Deposited{cents}) }

func (a *Account) Withdraw(cents int) error {
	if a.Balance < cents {
		return errPoor
	}
	return aggregate.Raise(a, Withdrawn{cents})
}

func newAccount(string) *Account { return new(Account) }

// decider is the same domain as functions; a command is a number of cents, negative to withdraw.
var decider = aggregate.Decider[Account, int, moved]{
	Initial: func() Account { return Account{} },
	Decide: func(a Account, cents int) ([]moved, error) {
		switch {
		case cents == 0:
			return nil, nil
		case cents > 0:
			return []moved{Deposited{cents}}, nil
		case a.Balance < -cents:
			return nil, errPoor
		case a.Balance == -cents:
			return []moved{Withdrawn{-cents}, Closed{}}, nil
		}
		return []moved{Withdrawn{-cents}}, nil
	},
	Evolve:   func(a Account, ev moved) Account { ev.happened(&a); return a },
	Terminal: func(a Account) bool { return a.Ended },
}

// wrapped counts the reads of a log, and lets commits fail.
type wrapped struct {
	mainstem.Log
	reads atomic.Int64
	// commit, if set, is called in place of Commit.
	commit func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error)
}

func (w *wrapped) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if w.commit != nil {
		return w.commit(ctx, b)
	}
	return w.Log.Commit(ctx, b)
}

type fixture struct {
	log   *wrapped
	store *event.Store
	types *event.Types
}

// onEach runs a test on every engine.
func onEach(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	testengines.Each(t, func(t *testing.T, log mainstem.Log) { test(t, newFixtureOn(t, log)) })
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixtureOn(t, testengines.Memory(t))
}

func newFixtureOn(t testing.TB, log mainstem.Log) *fixture {
	t.Helper()
	f := &fixture{log: &wrapped{Log: log}, types: event.NewTypes(nil)}
	var err error
	f.store, err = event.Open(f.log, "bank", nil)
	err = errors.Join(err,
		event.Register[Opened](f.types, "Opened"), event.Register[Deposited](f.types, "Deposited"),
		event.Register[Withdrawn](f.types, "Withdrawn"), event.Register[Closed](f.types, "Closed"),
	)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) accounts(t testing.TB, o *aggregate.Options) *aggregate.Repository[*Account] {
	t.Helper()
	r, err := aggregate.Open(f.store, f.types, "account", newAccount, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (f *fixture) deciders(t testing.TB, o *aggregate.Options) *aggregate.Deciders[Account, int, moved] {
	t.Helper()
	r, err := aggregate.OpenDecider(f.store, f.types, "account", decider, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// deposit is a decision.
func deposit(cents int) func(*Account) error {
	return func(a *Account) error { return a.Deposit(cents) }
}

// withBalance checks what is loaded.
func withBalance(t testing.TB, r *aggregate.Repository[*Account], id string, version mainstem.Version, balance int) *Account {
	t.Helper()
	a, err := r.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if a.ID() != id || a.Version() != version || a.Balance != balance || len(a.Uncommitted()) != 0 {
		t.Fatalf("loaded %s at version %d with balance %d and %d uncommitted: want %s at %d with %d", a.ID(), a.Version(), a.Balance, len(a.Uncommitted()), id, version, balance)
	}
	return a
}
