package domain

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/command"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/domain"
)

// slowScale is how many commands the scale test sends where each one that writes waits
// for a disk or a network.
const slowScale = 100_000

// mainstemLogs are the toolkit on every engine.
func mainstemLogs() []domain.Factory {
	var all []domain.Factory
	for _, e := range engines.All() {
		f := domain.Factory{
			Name: e.Name, Durability: e.Durability, Transport: e.Transport, Address: e.Address, Note: e.Note, Skip: e.Skip,
			Open: func(ctx context.Context, env *suite.Env, dir string) (domain.Domain, error) {
				log, err := e.Open(ctx, env, dir)
				if err != nil {
					return nil, err
				}
				m := &mainstemDomain{log: log}
				if err := m.open(); err != nil {
					return nil, errors.Join(err, log.Close())
				}
				return m, nil
			},
		}
		if e.Server || e.Durability == suite.Fsync {
			f.ScaleCommands = slowScale
		}
		all = append(all, f)
	}
	return all
}

// order is the aggregate.
type order struct {
	aggregate.Root
	Items items
}

func newOrder(string) *order { return new(order) }

// Apply adds up items.
func (o *order) Apply(ev any) error {
	o.Items.add(ev.(itemAdded))
	return nil
}

func (o *order) addItem() error { return aggregate.Raise(o, newItem(o.Items.Count)) }

func (o *order) view() domain.Order { return o.Items.order(uint64(o.Version())) }

// The commands: one whose handler does nothing, and one that adds an item.
type (
	nothing struct {
		command.Base
		Quantity int
	}
	addItem struct {
		command.Base
		Order    string
		Quantity int
	}
)

func (nothing) CommandType() string   { return "Nothing" }
func (addItem) CommandType() string   { return "AddItem" }
func (c addItem) AggregateID() string { return c.Order }
func (c nothing) Validate() error     { return validate(c.Quantity) }
func (c addItem) Validate() error     { return validate(c.Quantity) }

func validate(quantity int) error {
	if quantity < 1 {
		return command.Invalid("quantity", "%d: want 1 or more", quantity)
	}
	return nil
}

// mainstemDomain is the toolkit on a log.
type mainstemDomain struct {
	log       mainstem.Log
	store     *event.Store
	orders    *aggregate.Repository[*order]
	snapshots *aggregate.Repository[*order]
	buses     [domain.Full + 1]*command.Bus
	handled   atomic.Int64
	commands  atomic.Int64 // IDs given
}

func (m *mainstemDomain) open() error {
	types := event.NewTypes(nil)
	err := event.Register[itemAdded](types, "ItemAdded")
	if err != nil {
		return err
	}
	if m.store, err = event.Open(m.log, "bench", nil); err != nil {
		return err
	}
	if m.orders, err = aggregate.Open(m.store, types, "order", newOrder, nil); err != nil {
		return err
	}
	if m.snapshots, err = aggregate.Open(m.store, types, "order", newOrder, &aggregate.Options{SnapshotEvery: 1}); err != nil {
		return err
	}
	trail, err := command.OpenAudit(m.log, "bench")
	if err != nil {
		return err
	}
	four := []command.Middleware{command.Recovery(), command.Validation(), command.CorrelationID(nil), command.CausationID()}
	for p, middleware := range [...][]command.Middleware{
		domain.Bare: nil, domain.Aggregate: nil, domain.Validation: {command.Validation()}, domain.Four: four,
		domain.Full: append(four[:len(four):len(four)], command.Audit(command.AuditOptions{Log: trail}), command.Idempotency(command.IdempotencyOptions{})),
	} {
		if m.buses[p], err = m.bus(fmt.Sprintf("bench%d", p), middleware); err != nil {
			return err
		}
	}
	return nil
}

func (m *mainstemDomain) bus(name string, middleware []command.Middleware) (*command.Bus, error) {
	bus, err := command.Open(m.log, name, nil, middleware...)
	if err != nil {
		return nil, err
	}
	return bus, errors.Join(
		command.Handle(bus, func(context.Context, nothing) (command.Result, error) {
			m.handled.Add(1)
			return command.Result{}, nil
		}),
		command.HandleAggregate(bus, m.orders, func(_ context.Context, o *order, _ addItem) error { return o.addItem() }),
	)
}

func (m *mainstemDomain) Save(ctx context.Context, id string, items int) error {
	repo := m.orders
	if items == domain.SnapshotOf {
		repo = m.snapshots
	}
	o := repo.New(id)
	for range items {
		if err := o.addItem(); err != nil {
			return err
		}
	}
	_, err := repo.Save(ctx, o)
	return err
}

func (m *mainstemDomain) Load(ctx context.Context, id string) (domain.Order, error) {
	return load(ctx, m.orders, id)
}

func (m *mainstemDomain) LoadSnapshot(ctx context.Context, id string) (domain.Order, error) {
	return load(ctx, m.snapshots, id)
}

func load(ctx context.Context, repo *aggregate.Repository[*order], id string) (domain.Order, error) {
	o, err := repo.Load(ctx, id)
	if err != nil {
		return domain.Order{}, err
	}
	return o.view(), nil
}

func (m *mainstemDomain) Add(ctx context.Context, id string) error {
	_, err := m.orders.Update(ctx, id, (*order).addItem)
	return err
}

func (m *mainstemDomain) Dispatch(ctx context.Context, p domain.Pipeline, id string) error {
	var cmd command.Command = nothing{Quantity: 1}
	switch {
	case p == domain.Full:
		cmd = addItem{Base: command.Base{CommandID: fmt.Sprint(m.commands.Add(1))}, Order: id, Quantity: 1}
	case p == domain.Aggregate:
		cmd = addItem{Order: id, Quantity: 1}
	}
	_, err := m.buses[p].Dispatch(ctx, cmd)
	return err
}

func (m *mainstemDomain) Handled() int { return int(m.handled.Load()) }

func (m *mainstemDomain) Clear(ctx context.Context) error { return m.store.Drop(ctx) }

func (m *mainstemDomain) Close() error {
	var errs []error
	for _, b := range m.buses {
		errs = append(errs, b.Close())
	}
	return errors.Join(append(errs, m.log.Close())...)
}
