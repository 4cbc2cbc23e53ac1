// Package eventtest has fixtures for tests of a domain in the form given, when, then: given these
// events, when this decision is made, then these events follow, or this error.
//
//	eventtest.Given(t, new(Order), OrderPlaced{995}).
//		When((*Order).Pay).
//		Then(OrderPaid{})
//
//	eventtest.Given(t, new(Order), OrderPlaced{995}, OrderPaid{}).
//		When((*Order).Pay).
//		ThenErrorContains("paid already")
//
// [Given] takes an aggregate and [GivenDecider] a decider; neither needs a log. [GivenBus] takes a
// command bus with its log, which may be in memory, and checks the events that a command appended.
// [GivenSaga] runs sagas in virtual time, without a log. [GivenProjection] runs a projection on a
// log, twice. [Events] checks a list of events.
//
//	eventtest.GivenSaga(t, fulfilment).
//		Given(eventtest.In("order-1", OrderPlaced{995})).ThenCommands(Charge{"1"}).
//		After(15 * time.Minute).ThenCompensates(Cancel{"1"})
//
// A failed check is reported with Errorf and the fields that differ, and the test continues. An
// error in the setup ends the test with Fatalf. Events are compared as Go values, by
// reflect.DeepEqual.
//
// # Concurrency
//
// The fixtures belong to the goroutine of their test.
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
