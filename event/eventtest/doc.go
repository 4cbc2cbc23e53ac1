// Package eventtest tests a domain in the words given, when, then: given these events, when this
// is decided, then these events happen, or this error.
//
//	eventtest.Given(t, new(Order), OrderPlaced{995}).
//		When((*Order).Pay).
//		Then(OrderPaid{})
//
//	eventtest.Given(t, new(Order), OrderPlaced{995}, OrderPaid{}).
//		When((*Order).Pay).
//		ThenErrorContains("paid already")
//
// [Given] takes an aggregate, [GivenDecider] pure functions; neither needs a log. [GivenBus] takes a
// command bus with its log, which may be in memory, and looks at what was appended.
// [GivenSaga] runs sagas in virtual time, without a log; [GivenProjection] runs a projection on a log, twice.
// [Events] checks a list of events.
//
//	eventtest.GivenSaga(t, fulfilment).
//		Given(eventtest.In("order-1", OrderPlaced{995})).ThenCommands(Charge{"1"}).
//		After(15 * time.Minute).ThenCompensates(Cancel{"1"})
//
// What does not hold is reported with Errorf, with the fields that differ, and the test goes
// on; it ends at once where nothing is left to check. Events are compared as Go values, by
// reflect.DeepEqual.
//
// # Concurrency
//
// Everything here belongs to the goroutine of its test.
//
//snippet:import "testing"
//snippet:var t *testing.T
//snippet:type OrderPlaced struct{ Total int }
//snippet:type OrderPaid struct{}
//snippet:type Order struct{ aggregate.Root }
//snippet:func (*Order) Apply(any) error { return nil }
//snippet:func (*Order) Pay() error { return nil }
//snippet:type Charge struct{ Order string }
//snippet:func (Charge) CommandType() string { return "" }
//snippet:type Cancel struct{ Order string }
//snippet:func (Cancel) CommandType() string { return "" }
//snippet:var fulfilment *saga.Saga
package eventtest
