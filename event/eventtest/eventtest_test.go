package eventtest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/eventtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	Placed struct {
		Item  string
		Lines []line
		Notes map[string]*string
	}
	line struct{ Cents int }
	Paid struct{ Cents float64 }
	Odd  struct{ hidden int }
)

type Order struct {
	aggregate.Root
	Placed, Paid bool
}

var errPaid = errors.New("paid already")

func (o *Order) Apply(ev any) error {
	switch ev.(type) {
	case Placed:
		o.Placed = true
	case Paid:
		o.Paid = true
	default:
		return errors.New("strange event")
	}
	return nil
}

func (o *Order) Pay() error {
	switch {
	case o.Paid:
		return errPaid
	case !o.Placed:
		return nil
	}
	return aggregate.Raise(o, Paid{float64(o.Version())})
}

// Cart has methods with the names of those of its root.
type Cart struct {
	aggregate.Root
	Items int
}

func (c *Cart) Apply(ev any) error {
	c.Items++
	if _, paid := ev.(Paid); paid {
		c.Items = 0
	}
	return nil
}

func (c *Cart) Clear() error     { return aggregate.Raise(c, Paid{float64(c.Items)}) }
func (c *Cart) Uncommitted() int { return c.Items }

func TestAggregateWithMethodsOfItsRoot(t *testing.T) {
	eventtest.Given(t, new(Cart), Placed{}, Placed{}).When((*Cart).Clear).Then(Paid{2})
}

type pay struct{ ID string }

func (pay) CommandType() string   { return "Pay" }
func (p pay) AggregateID() string { return p.ID }

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	failed []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Errorf(f string, a ...any) { r.failed = append(r.failed, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); panic(r) }

// check runs body with a test that may fail, and wants failures with these texts, in order.
func check(t *testing.T, body func(testing.TB), want ...string) {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(r) {
				panic(v)
			}
		}()
		body(r)
	}()
	if len(r.failed) != len(want) {
		t.Errorf("%d failures, want %d:\n%s", len(r.failed), len(want), strings.Join(r.failed, "\n"))
		return
	}
	for i, w := range want {
		if !strings.Contains(r.failed[i], w) {
			t.Errorf("failure %d is %q, want %q in it", i+1, r.failed[i], w)
		}
	}
}

func TestGiven(t *testing.T) {
	placed := func(t testing.TB) *eventtest.AggregateCase[*Order] { return eventtest.Given(t, new(Order), Placed{}) }
	check(t, func(t testing.TB) { placed(t).When((*Order).Pay).Then(Paid{1}) })
	check(t, func(t testing.TB) { placed(t).When((*Order).Pay).Then(Paid{2}) }, "Cents: got 1, want 2")
	check(t, func(t testing.TB) { placed(t).When((*Order).Pay).ThenNothing() }, "1 events happened, want 0")
	check(t, func(t testing.TB) { placed(t).When((*Order).Pay).ThenError(errPaid) }, "the error is <nil>")
	check(t, func(t testing.TB) { placed(t).When((*Order).Pay).ThenErrorContains("") }, "the error is <nil>")
	check(t, func(t testing.TB) { eventtest.Given(t, new(Order)).When((*Order).Pay).ThenNothing() })
	check(t, func(t testing.TB) { eventtest.Given(t, new(Order)).When((*Order).Pay).Then(Paid{}) }, "0 events happened, want 1")
	paid := func(t testing.TB) *eventtest.Decision {
		return eventtest.Given(t, new(Order), Placed{}, Paid{}).When((*Order).Pay)
	}
	check(t, func(t testing.TB) { paid(t).ThenError(errPaid).ThenErrorContains("already") })
	check(t, func(t testing.TB) { paid(t).ThenError(context.Canceled).ThenErrorContains("never") }, "want context canceled", `one with "never"`)
	check(t, func(t testing.TB) { paid(t).Then(Paid{}) }, "it failed: paid already")
	check(t, func(t testing.TB) { paid(t).ThenNothing() }, "it failed: paid already")
	check(t, func(t testing.TB) { eventtest.Given(t, new(Order), 7) }, "given event 1, int7: strange event")
}

var decider = aggregate.Decider[int, string, any]{
	Initial: func() int { return 0 },
	Decide: func(s int, cmd string) ([]any, error) {
		if cmd == "fail" {
			return nil, errPaid
		}
		return []any{Paid{float64(s)}}, nil
	},
	Evolve:   func(s int, _ any) int { return s + 1 },
	Terminal: func(s int) bool { return s > 2 },
}

func TestGivenDecider(t *testing.T) {
	check(t, func(t testing.TB) { eventtest.GivenDecider(t, decider, Paid{}, Paid{}).When("pay").Then(Paid{2}) })
	check(t, func(t testing.TB) { eventtest.GivenDecider(t, decider).When("pay").Events().First(Paid{0}).Count(1) })
	check(t, func(t testing.TB) { eventtest.GivenDecider(t, decider).When("fail").ThenError(errPaid) })
	check(t, func(t testing.TB) { eventtest.GivenDecider(t, decider).When("pay").Then(Paid{1}) }, "got 0, want 1")
	check(t, func(t testing.TB) {
		eventtest.GivenDecider(t, decider, Paid{}, Paid{}, Paid{}).When("pay").ThenError(aggregate.ErrTerminal)
	})
}

func TestGivenStrangeEvent(t *testing.T) {
	d := aggregate.Decider[int, int, error]{Initial: func() int { return 0 }, Evolve: func(s int, _ error) int { return s }}
	check(t, func(t testing.TB) { eventtest.GivenDecider(t, d, errPaid, Paid{}) }, "given event 2 is a eventtest_test.Paid")
}

func TestEvents(t *testing.T) {
	a, b := Placed{Item: "book"}, Paid{1}
	list := func(t testing.TB) *eventtest.List { return eventtest.Events(t, a, b, &b) }
	check(t, func(t testing.TB) {
		list(t).Types("Placed", "Paid", "Paid").Count(3).First(a).At(1, b).Last(&b).Contains(b).Equal(a, b, &b)
	})
	check(t, func(t testing.TB) {
		list(t).Types("Placed").Count(2).First(b).At(3, b).At(-1, b).Contains(Paid{2}).Equal(a, b)
	},
		"Placed, Paid, Paid; want Placed", "3 events happened, want 2", "event 1 is a Placed, and not the Paid", "no event 4", "no event 0", "no event is Paid{Cents:2}", "3 events happened, want 2")
	check(t, func(t testing.TB) { eventtest.Events(t).Equal().Count(0).First(a) }, "there is no event 1")
	check(t, func(t testing.TB) { eventtest.Events(t, nil).Equal(nil).Types("nil").First(a) }, "nil, and not the Placed")
}

// Differences are reported field by field.
func TestDifferences(t *testing.T) {
	s, u := "s", "u"
	for _, c := range []struct {
		got, want any
		lines     []string
	}{
		{Placed{Item: "a"}, Placed{Item: "b"}, []string{`Item: got "a", want "b"`}},
		{Placed{Lines: []line{{1}, {2}}}, Placed{Lines: []line{{1}, {3}}}, []string{"Lines[1].Cents: got 2, want 3"}},
		{Placed{Lines: []line{{1}}}, Placed{}, []string{"Lines: got []eventtest_test.line{"}},
		{Placed{Lines: []line{}}, Placed{}, []string{"Lines: got"}},
		{Placed{Notes: map[string]*string{"x": &s, "y": &s}}, Placed{Notes: map[string]*string{"x": &u, "z": &s}}, []string{`Notes["x"]: got "s", want "u"`, `Notes["y"]: got`, `Notes["z"]: got nothing`}},
		{Placed{Notes: map[string]*string{}}, Placed{}, []string{"Notes: got"}},
		{Placed{Notes: map[string]*string{"x": nil}}, Placed{Notes: map[string]*string{"x": &s}}, []string{`Notes["x"]: got`}},
		{Odd{1}, Odd{2}, []string{"hidden: got 1, want 2"}},
		{Paid{math.NaN()}, Paid{math.NaN()}, []string{"got NaN, want NaN"}},
		{Paid{1}, Odd{1}, []string{"value: got"}},
		{nil, Paid{1}, []string{"value: got nothing"}},
	} {
		r := &recorder{TB: t}
		eventtest.Events(r, c.got).Equal(c.want)
		all := strings.Join(r.failed, "\n")
		for _, line := range c.lines {
			if !strings.Contains(all, line) {
				t.Errorf("%#v and %#v differ by %q, want %q", c.got, c.want, all, line)
			}
		}
	}
	many := make([]line, 100)
	r := &recorder{TB: t}
	other := make([]line, 100)
	for i := range other {
		other[i].Cents = 1
	}
	eventtest.Events(r, Placed{Lines: many}).Equal(Placed{Lines: other})
	if n := strings.Count(r.failed[0], "\n"); n != 21 || !strings.Contains(r.failed[0], "and 80 more") {
		t.Errorf("a long difference has %d lines:\n%s", n, r.failed[0])
	}
}

func TestGivenBus(t *testing.T) {
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	store, err := event.Open(log, "shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	types := event.NewTypes(nil)
	err = errors.Join(event.Register[Placed](types, "Placed"), event.Register[Paid](types, "Paid"))
	if err != nil {
		t.Fatal(err)
	}
	orders, err := aggregate.Open(store, types, "order", func(string) *Order { return new(Order) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	bus, err := command.Open(log, "shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	err = command.HandleAggregate(bus, orders, func(_ context.Context, o *Order, cmd pay) error { return o.Pay() })
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	given := func(t testing.TB) (*eventtest.BusCase, string) {
		n++
		id := fmt.Sprint(n)
		return eventtest.GivenBus(t, bus, store, types).Existing("order-"+id, Placed{}), id
	}
	check(t, func(t testing.TB) {
		c, id := given(t)
		c.When(pay{id}).ThenSucceeds().ThenID(id).ThenVersion(2).Then(Paid{1}).Events().Types("Paid")
		d := c.When(pay{id}).ThenFails(errPaid).ThenFailsWith("already")
		if _, err := d.Result(); !errors.Is(err, errPaid) {
			t.Errorf("the result has error %v", err)
		}
	})
	check(t, func(t testing.TB) {
		c, id := given(t)
		c.When(pay{id}).ThenFails(errPaid).ThenFailsWith("x").ThenID("y").ThenVersion(7).Then(Paid{3})
	}, "the error is <nil>", "there are events: Paid{Cents:1}", `one with "x"`, "there are events", `want "y"`, "the version is 2, want 7", "got 1, want 3")
	check(t, func(t testing.TB) {
		c, _ := given(t)
		c.Existing("order-x", Placed{}, Paid{}).When(pay{"x"}).Then()
	}, "the command failed: paid already")
	check(t, func(t testing.TB) {
		c, _ := given(t)
		c.Existing("order-x", Odd{})
	}, "existing event 1 of stream order-x")
}
