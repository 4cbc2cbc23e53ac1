package domain

import (
	"context"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Cents is the price of every item.
const Cents = 450

// Order is an order as it was made of its events. Each item is an event.
type Order struct {
	Items   int
	Cents   int // of all items
	Version uint64
}

// Pipeline says what a command goes through.
type Pipeline int

// The pipelines.
const (
	Bare       Pipeline = iota // to a handler that does nothing
	Validation                 // to the same, if the command is valid
	Four                       // validation, recovery, correlation and causation
	Aggregate                  // to the order: load, add an item, save
	Full                       // Four and Aggregate, with a record that keeps the command from being done twice, and a row in a trail
)

// Domain is a contender. All methods may be called from many goroutines.
type Domain interface {
	// Save makes a new order of so many items and saves it.
	Save(ctx context.Context, order string, items int) error
	// Load makes an order of all its events.
	Load(ctx context.Context, order string) (Order, error)
	// LoadSnapshot makes an order of its newest snapshot and the events after it. A
	// contender without snapshots says so by [Factory.Lacks].
	LoadSnapshot(ctx context.Context, order string) (Order, error)
	// Add loads an order of all its events, adds an item and saves it.
	Add(ctx context.Context, order string) error
	// Dispatch sends the command to add an item to order. With Bare, Validation and
	// Four nothing is added.
	Dispatch(ctx context.Context, p Pipeline, order string) error
	// Handled returns how many commands the handler that does nothing has had.
	Handled() int
	// Clear removes all orders.
	Clear(ctx context.Context) error
	Close() error
}

// Factory opens a contender.
type Factory struct {
	Name       string // as in [suite.Entry.Contender]
	Durability suite.Durability
	Note       string // one sentence on what is particular to it, if anything
	// Transport, Address and Skip are as in [suite.Entry].
	Transport suite.Transport
	Address   string
	Skip      func(env *suite.Env) string
	// Lacks says which cases it cannot run, and why.
	Lacks suite.Lacks
	// ScaleCommands is how many commands the scale test sends. Default 1,000,000.
	ScaleCommands int
	// Open opens a new domain with its files in dir.
	Open func(ctx context.Context, env *suite.Env, dir string) (Domain, error)
}
