package main

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/event/eventtest"
	"github.com/mainstemdev/mainstem/event/saga"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	main()
	// Output:
	// order 1
	//   OrderPlaced {"Item":"book","Cents":995}
	//   OrderPaid {"Cents":995}
	//   OrderShipped {"Item":"book"}
	// order 2
	//   OrderPlaced {"Item":"book","Cents":995}
	//   OrderPaid {"Cents":995}
	//   OrderRefunded {"Cents":995}
	//   OrderCancelled {}
	// saga fulfilment-2 has failed: book is sold out
}

// The saga needs no log to be tested.
func TestFulfilment(t *testing.T) {
	def, err := fulfilment()
	if err != nil {
		t.Fatal(err)
	}
	placed := eventtest.In("order-1", OrderPlaced{"book", 995})
	paid := eventtest.In("order-1", OrderPaid{995})

	eventtest.GivenSaga(t, def).Given(placed).ThenCommands(RequestPayment{Order: "1", Cents: 995}).
		After(patience).ThenCompensates(Cancel{"1"}).ThenStatus("1", saga.Compensated)

	eventtest.GivenSaga(t, def).Given(placed, paid).After(2*patience).ThenCommands().
		Given(eventtest.In("order-1", OrderShipped{"book"})).ThenStatus("1", saga.Completed)

	eventtest.GivenSaga(t, def).Given(placed, paid).
		Refused(Ship{"1", "book"}, errors.New("sold out")).ThenCompensates(Refund{"1", 995}, Cancel{"1"})
}
