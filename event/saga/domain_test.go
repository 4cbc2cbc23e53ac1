package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/saga"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The domain of the tests: orders that are charged, shipped and, if that is refused, refunded and
// cancelled. The item says what goes wrong.
type (
	placed  struct{ Item string }
	charged struct{ Cents int }
	shipped struct{}
	undone  struct{ What string }
	poked   struct{ Order string }

	charge struct {
		command.Base
		Order string
		Cents int
	}
	ship   struct{ Order, Item string }
	refund struct{ Order string }
	cancel struct{ Order string }
)

func (charge) CommandType() string { return "Charge" }
func (ship) CommandType() string   { return "Ship" }
func (refund) CommandType() string { return "Refund" }
func (*cancel) CommandType() string {
	return "Cancel"
}

// state is the state of the saga.
type state struct {
	Item           string
	Pokes, Charges int
}

// Items that go wrong.
const (
	broke    = "broke"    // cannot be charged
	heavy    = "heavy"    // cannot be shipped
	sticky   = "sticky"   // can neither be shipped nor refunded
	unpaid   = "unpaid"   // charging has no effect, so the timeout comes
	stolen   = "stolen"   // the saga itself fails when it is charged
	poison   = "poison"   // the saga cannot handle it
	withheld = "withheld" // fails the saga at once
)

var errRefused = errors.New("refused")

const patience = 15 * time.Minute

// newFulfilment returns the saga of the tests.
func newFulfilment(name string, more ...saga.Option) (*saga.Saga, error) {
	return saga.New[state](name, append([]saga.Option{
		saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[state], ev placed) error {
			switch ev.Item {
			case poison:
				return errors.New("poison")
			case withheld:
				c.Fail(errors.New("withheld"))
				return nil
			}
			c.State.Item = ev.Item
			c.Dispatch(charge{Order: c.Key(), Cents: 995})
			c.Compensate(&cancel{Order: c.Key()})
			c.Timeout("payment", patience)
			return nil
		}),
		saga.On(saga.StreamKey[charged], func(c *saga.Context[state], _ charged) error {
			c.State.Charges++
			c.CancelTimeout("payment")
			c.Compensate(refund{Order: c.Key()})
			if c.State.Item == stolen {
				c.Fail(errors.New("stolen"))
				return nil
			}
			c.Dispatch(ship{Order: c.Key(), Item: c.State.Item})
			return nil
		}),
		saga.On(saga.StreamKey[shipped], func(c *saga.Context[state], _ shipped) error {
			c.Complete()
			return nil
		}),
		saga.On(func(ev poked, _ event.Recorded) string { return ev.Order }, func(c *saga.Context[state], _ poked) error {
			c.State.Pokes++
			return nil
		}),
		saga.OnTimeout("payment", func(c *saga.Context[state]) error {
			c.Fail(errors.New("not paid in time"))
			return nil
		}),
		saga.Sends[charge](), saga.Sends[ship](), saga.Sends[refund](), saga.Sends[*cancel](),
	}, more...)...)
}

// shop is a store, a bus, and the effects of the commands.
type shop struct {
	t       testing.TB
	log     mainstem.Log
	store   *event.Store
	types   *event.Types
	bus     *command.Bus
	effects *kv.Bucket[int] // "Ship/42": how often
	records *saga.Records

	closed   atomic.Bool                                         // commands find a service that is not there
	repaired atomic.Bool                                         // nothing goes wrong any more
	before   func(ctx context.Context, name, order string) error // of each command
	running  []*saga.Engine                                      // started with start
}

func newShop(t testing.TB, log mainstem.Log) *shop {
	t.Helper()
	s := &shop{t: t, log: log, types: event.NewTypes(nil)}
	var errs [3]error
	s.store, errs[0] = event.Open(log, "shop", nil)
	s.effects, errs[1] = kv.Open[int](log, "effects", nil)
	s.records, errs[2] = saga.OpenRecords(log, "shop")
	s.must(errors.Join(errs[:]...))
	s.must(errors.Join(
		event.Register[placed](s.types, "Placed"), event.Register[charged](s.types, "Charged"), event.Register[shipped](s.types, "Shipped"),
		event.Register[undone](s.types, "Undone"), event.Register[poked](s.types, "Poked"),
	))
	s.openBus(command.Retry(command.RetryOptions{First: time.Millisecond}), command.Idempotency(command.IdempotencyOptions{}))
	return s
}

// openBus sets the bus of the shop to one with the given middleware.
func (s *shop) openBus(with ...command.Middleware) {
	s.t.Helper()
	var err error
	s.bus, err = command.Open(s.log, "shop", nil, with...)
	s.must(err)
	s.must(errors.Join(
		command.Handle(s.bus, func(ctx context.Context, c charge) (command.Result, error) {
			var evs []any
			if item := s.item(c.Order); item != unpaid {
				evs = append(evs, charged{c.Cents})
			}
			return command.Result{}, s.effect(ctx, "Charge", c.Order, broke, evs...)
		}),
		command.Handle(s.bus, func(ctx context.Context, c ship) (command.Result, error) {
			wrong := heavy
			if c.Item == sticky {
				wrong = sticky
			}
			return command.Result{}, s.effect(ctx, "Ship", c.Order, wrong, shipped{})
		}),
		command.Handle(s.bus, func(ctx context.Context, c refund) (command.Result, error) {
			return command.Result{}, s.effect(ctx, "Refund", c.Order, sticky, undone{"charge"})
		}),
		command.Handle(s.bus, func(ctx context.Context, c *cancel) (command.Result, error) {
			return command.Result{}, s.effect(ctx, "Cancel", c.Order, "", undone{"order"})
		}),
	))
}

func (s *shop) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// item returns what was ordered.
func (s *shop) item(order string) string {
	evs, err := s.store.Load(context.Background(), "order-"+order, &event.LoadOptions{To: 1})
	if err != nil || len(evs) == 0 {
		return ""
	}
	v, err := s.types.Decode(evs[0])
	if p, ok := v.(placed); ok && err == nil {
		return p.Item
	}
	return ""
}

// effect lets a command take effect in the commit of its dispatch, unless the item is wrong for it.
func (s *shop) effect(ctx context.Context, name, order, wrong string, evs ...any) error {
	if s.closed.Load() {
		return mainstem.Errorf(mainstem.KindUnavailable, name, "closed")
	}
	if s.before != nil {
		if err := s.before(ctx, name, order); err != nil {
			return err
		}
	}
	if wrong != "" && s.item(order) == wrong && !s.repaired.Load() {
		return fmt.Errorf("%s of %s: %w", name, wrong, errRefused)
	}
	b := command.Batch(ctx)
	for _, v := range evs {
		ev, err := s.types.Encode(v)
		if err != nil {
			return err
		}
		ev.Metadata = event.MetadataFrom(ctx)
		s.store.AppendTo(b, "order-"+order, event.AnyVersion, []event.Event{ev})
	}
	return kv.IncrementTo(ctx, b, s.effects, name+"/"+order, 1)
}

// append appends events to the stream of an order.
func (s *shop) append(order string, vs ...any) mainstem.Position {
	s.t.Helper()
	evs := make([]event.Event, len(vs))
	for i, v := range vs {
		var err error
		evs[i], err = s.types.Encode(v)
		s.must(err)
		evs[i].Metadata.TenantID = "tenant-" + order
	}
	a, err := s.store.Append(s.t.Context(), "order-"+order, event.AnyVersion, evs)
	s.must(err)
	return a.LastPosition
}

// start starts an engine with the saga fulfilment, and stops it at the end of the test.
func (s *shop) start(o *saga.Options, f *saga.Follow) *saga.Engine {
	s.t.Helper()
	e, err := s.tryStart(o, f)
	s.must(err)
	s.running = append(s.running, e)
	s.t.Cleanup(func() { s.stop(e) })
	return e
}

func (s *shop) tryStart(o *saga.Options, f *saga.Follow) (*saga.Engine, error) {
	def, err := newFulfilment("fulfilment")
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &saga.Options{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Backoff == 0 {
		o.Backoff, o.MaxBackoff, o.RestartAfter = time.Millisecond, 10*time.Millisecond, time.Millisecond
	}
	e, err := saga.Open(s.store, s.types, s.bus, o)
	if err != nil {
		return nil, err
	}
	if err := e.Register(def, f); err != nil {
		return nil, err
	}
	return e, e.Start(s.t.Context())
}

// startLike is start of an engine whose commands are carried out as those of another shop.
func (s *shop) startLike(other *shop) *saga.Engine {
	s.t.Helper()
	s.before = other.before
	return s.start(nil, nil)
}

// head returns the position of the newest record of the log.
func (s *shop) head() mainstem.Position {
	s.t.Helper()
	p, err := s.log.Head(s.t.Context())
	s.must(err)
	return p
}

func (s *shop) stop(e *saga.Engine) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		s.t.Errorf("stop: %v", err)
	}
}

func (s *shop) get(order string) saga.Instance {
	s.t.Helper()
	i, err := s.records.Get(s.t.Context(), saga.ID("fulfilment", order))
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		s.t.Fatal(err)
	}
	return i
}

// until waits until the saga of an order has a status.
func (s *shop) until(order string, want saga.Status) saga.Instance {
	s.t.Helper()
	var i saga.Instance
	testkit.Eventually(s.t, "saga "+order+" is "+string(want), func() bool {
		i = s.get(order)
		return i.Status == want
	})
	return i
}

// did returns the effects for an order, such as "Charge=1 Ship=1", in the order of the names.
func (s *shop) did(order string) string {
	s.t.Helper()
	var out []string
	for _, name := range []string{"Cancel", "Charge", "Refund", "Ship"} {
		e, err := s.effects.Get(s.t.Context(), name+"/"+order)
		if err == nil {
			out = append(out, fmt.Sprint(name, "=", e.Value))
		} else if !errors.Is(err, mainstem.ErrNotFound) {
			s.t.Fatal(err)
		}
	}
	return strings.Join(out, " ")
}

// happened returns the types of the events of an order.
func (s *shop) happened(order string) string {
	s.t.Helper()
	evs, err := s.store.Load(s.t.Context(), "order-"+order, nil)
	s.must(err)
	var out []string
	for _, ev := range evs {
		out = append(out, strings.TrimSpace(ev.Type+" "+strings.Trim(string(ev.Data), "{}")))
	}
	return strings.Join(out, ", ")
}

// steps returns the history of the saga of an order.
func (s *shop) steps(order string) string {
	s.t.Helper()
	var out []string
	for e, err := range s.records.History(s.t.Context(), saga.ID("fulfilment", order)) {
		s.must(err)
		out = append(out, strings.TrimPrefix(string(e.Step), "Saga"))
	}
	return strings.Join(out, " ")
}

// consistent checks that the tables of sagas agree with each other.
func (s *shop) consistent() {
	s.t.Helper()
	status := map[string]string{}
	keys := func(table string) (out []string) {
		b, err := kv.Open[[]byte](s.log, table, &kv.Options{})
		s.must(err)
		for key, err := range b.Keys(s.t.Context(), nil) {
			s.must(err)
			out = append(out, key)
		}
		return out
	}
	for _, key := range keys("saga.status/shop") {
		st, id, _ := strings.Cut(key, "/")
		if status[id] != "" {
			s.t.Errorf("saga %s is listed as %s and as %s", id, status[id], st)
		}
		status[id] = st
	}
	timeouts := map[string]int{}
	for _, key := range keys("saga.timer/shop") {
		timeouts[strings.Split(key, "\x00")[2]]++
	}
	n := 0
	for i, err := range s.records.Find(s.t.Context(), "") {
		s.must(err)
		n++
		if status[i.ID] != string(i.Status) {
			s.t.Errorf("saga %s is %s, and listed as %q", i.ID, i.Status, status[i.ID])
		}
		if timeouts[i.ID] != len(i.Timeouts) {
			s.t.Errorf("saga %s has timeouts %v, and %d rows of them", i.ID, i.Timeouts, timeouts[i.ID])
		}
		var last saga.Entry
		for e, err := range s.records.History(s.t.Context(), i.ID) {
			s.must(err)
			last = e
		}
		if last.Status != i.Status {
			s.t.Errorf("saga %s is %s, and its history ends with %s", i.ID, i.Status, last.Status)
		}
	}
	if n != len(status) {
		s.t.Errorf("%d sagas, and %d are listed", n, len(status))
	}
}
