package domain

import (
	"fmt"

	"github.com/mainstemdev/mainstem/bench/suites/domain"
)

// itemAdded is the event of all contenders.
type itemAdded struct {
	SKU      string
	Quantity int
	Cents    int
}

// newItem is the n-th item of an order.
func newItem(n int) itemAdded {
	return itemAdded{SKU: fmt.Sprintf("SKU-%05d", n), Quantity: 1, Cents: domain.Cents}
}

// items are what an order adds up.
type items struct{ Count, Cents int }

func (i *items) add(ev itemAdded) {
	i.Count++
	i.Cents += ev.Quantity * ev.Cents
}

func (i items) order(version uint64) domain.Order {
	return domain.Order{Items: i.Count, Cents: i.Cents, Version: version}
}
