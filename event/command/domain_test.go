package command_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The domain of the tests: orders, and a table of stock.
type (
	Placed struct{ Item string }
	Paid   struct{}
)

type Order struct {
	aggregate.Root
	Item string
	Paid bool
}

func (o *Order) Apply(ev any) error {
	switch ev := ev.(type) {
	case Placed:
		o.Item = ev.Item
	case Paid:
		o.Paid = true
	}
	return nil
}

// place orders something: one piece of the stock goes.
type place struct {
	command.Base
	ID, Item, Key string
	Fail          error
	Panic         any
}

func (place) CommandType() string      { return "Place" }
func (p place) AggregateID() string    { return p.ID }
func (p place) IdempotencyKey() string { return p.Key }

func (p place) Validate() error {
	var wrong []error
	if p.Item == "" {
		wrong = append(wrong, command.Invalid("item", "there is none"))
	}
	if len(p.Item) > 10 {
		wrong = append(wrong, command.Invalid("item", "%d letters: the limit is 10", len(p.Item)))
	}
	return errors.Join(wrong...)
}

// pay is a command without a key, and without an aggregate.
type pay struct {
	command.Base
	Order string
	Wrong error
}

func (*pay) CommandType() string { return "Pay" }
func (p *pay) Validate() error   { return p.Wrong }

// logUnderTest lets commits fail.
type logUnderTest struct {
	mainstem.Log
	commit  func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) // nil: that of the log
	commits atomic.Int64
}

func (l *logUnderTest) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	l.commits.Add(1)
	if l.commit != nil {
		return l.commit(ctx, b)
	}
	return l.Log.Commit(ctx, b)
}

// FailStop is that of the log, unless the test makes commits fail for a time.
func (l *logUnderTest) FailStop() bool {
	f, ok := l.Log.(mainstem.FailStopper)
	return l.commit == nil && ok && f.FailStop()
}

type shop struct {
	t      testing.TB
	log    *logUnderTest
	store  *event.Store
	orders *aggregate.Repository[*Order]
	stock  *kv.Bucket[int]
	items  *readmodel.Table[item] // of the inline projection; nil without
	bus    *command.Bus
}

// item is a row of the inline projection: how often something was ordered.
type item struct {
	Name   string
	Orders int
}

// onEach runs a test on a shop on every engine.
func onEach(t *testing.T, test func(t *testing.T, s *shop), middleware ...command.Middleware) {
	t.Helper()
	testengines.Each(t, func(t *testing.T, log mainstem.Log) { test(t, shopOn(t, &logUnderTest{Log: log}, middleware...)) })
}

// virtual returns a log for a synctest bubble: the model, which has no goroutines.
func virtual(t testing.TB) *logUnderTest {
	t.Helper()
	log := model.New(nil)
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return &logUnderTest{Log: log}
}

// newShop handles Place and Pay on a log in memory.
func newShop(t testing.TB, middleware ...command.Middleware) *shop {
	t.Helper()
	return shopOn(t, &logUnderTest{Log: testengines.Memory(t)}, middleware...)
}

func shopOn(t testing.TB, log *logUnderTest, middleware ...command.Middleware) *shop {
	t.Helper()
	return shopWith(t, log, false, middleware...)
}

// shopWith is shopOn with an inline projection of the events, if that is wanted.
func shopWith(t testing.TB, log *logUnderTest, inline bool, middleware ...command.Middleware) *shop {
	t.Helper()
	s := &shop{t: t, log: log}
	types := event.NewTypes(nil)
	err := errors.Join(event.Register[Placed](types, "Placed"), event.Register[Paid](types, "Paid"))
	var errs [4]error
	s.store, errs[0] = event.Open(log, "shop", nil)
	s.stock, errs[1] = kv.Open[int](log, "stock", nil)
	var o aggregate.Options
	if inline {
		o.Inline = s.openInline(types)
	}
	s.orders, errs[2] = aggregate.Open(s.store, types, "order", func(string) *Order { return new(Order) }, &o)
	s.bus, errs[3] = command.Open(log, "shop", nil, middleware...)
	if err := errors.Join(err, errors.Join(errs[:]...)); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		command.HandleAggregate(s.bus, s.orders, s.place),
		command.Handle(s.bus, s.pay),
	)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openInline returns the store with a projection that counts the orders of each item.
func (s *shop) openInline(types *event.Types) *projection.InlineStore {
	s.t.Helper()
	var err error
	if s.items, err = readmodel.Open(s.log, "shop/items", &readmodel.Options[item]{Key: func(i item) string { return i.Name }}); err != nil {
		s.t.Fatal(err)
	}
	p, err := projection.New("items", 1, event.Filter{Category: "order"}, projection.On(func(ctx context.Context, tx *projection.Tx, ev Placed, _ event.Recorded) error {
		return projection.Modify(ctx, tx, s.items, ev.Item, func(old item, _ bool) (item, error) {
			return item{ev.Item, old.Orders + 1}, nil
		})
	}))
	if err != nil {
		s.t.Fatal(err)
	}
	inline, err := projection.OpenInline(s.t.Context(), s.store, types, nil, p)
	if err != nil {
		s.t.Fatal(err)
	}
	return inline
}

// ordered returns how many orders of an item its row counts.
func (s *shop) ordered(name string) int {
	s.t.Helper()
	row, err := s.items.Get(s.t.Context(), name)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		s.t.Fatal(err)
	}
	return row.Orders
}

func (s *shop) place(ctx context.Context, o *Order, cmd place) error {
	b := command.Batch(ctx)
	if o.Item != "" {
		return errors.New("placed already")
	}
	if err := s.take(ctx, b, cmd.Item); err != nil {
		return err
	}
	if cmd.Panic != nil {
		panic(cmd.Panic)
	}
	return errors.Join(aggregate.Raise(o, Placed{cmd.Item}), cmd.Fail)
}

// take counts the orders of an item, on condition that nobody else does.
func (s *shop) take(ctx context.Context, b *mainstem.Batch, item string) error {
	return s.stock.ModifyTo(ctx, b, item, func(n int, _ bool) (int, error) { return n + 1, nil })
}

func (s *shop) pay(ctx context.Context, cmd *pay) (command.Result, error) {
	v, err := s.orders.UpdateTo(ctx, command.Batch(ctx), cmd.Order, func(o *Order) error {
		if o.Paid {
			return errors.New("paid already")
		}
		return aggregate.Raise(o, Paid{})
	})
	return command.Result{AggregateID: cmd.Order, Version: v, Data: map[string]int{"cents": 995}}, err
}

func (s *shop) dispatch(cmd command.Command) command.Result {
	s.t.Helper()
	r, err := s.bus.Dispatch(s.t.Context(), cmd)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// sold returns how many orders of an item the table of stock counts.
func (s *shop) sold(item string) int {
	s.t.Helper()
	e, err := s.stock.Get(s.t.Context(), item)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		s.t.Fatal(err)
	}
	return e.Value
}

// events returns the events of an order.
func (s *shop) events(id string) []event.Recorded {
	s.t.Helper()
	evs, err := s.store.Load(s.t.Context(), "order-"+id, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return evs
}

func raise(o *Order, item string) error { return aggregate.Raise(o, Placed{item}) }
