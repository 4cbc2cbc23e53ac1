package domain

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/domain"
)

// byHand is the domain as one writes it in an afternoon, without a toolkit: JSON in maps and slices under a
// lock, handlers in a map, and the steps of the pipeline as functions around them.
func byHand() domain.Factory {
	return domain.Factory{
		Name: "map-memory", Durability: suite.Memory, Transport: suite.InProcess,
		Note: "Go maps and slices under a lock, written by hand: nothing is ever on a disk, and no two things are one commit",
		Open: func(context.Context, *suite.Env, string) (domain.Domain, error) {
			return &handDomain{streams: make(map[string][][]byte), snapshots: make(map[string]handSnapshot), done: make(map[string]bool)}, nil
		},
	}
}

var (
	errConflict = errors.New("the order has changed")
	errNoOrder  = errors.New("there is no such order")
	errQuantity = errors.New("the quantity is below 1")
)

type handSnapshot struct {
	data    []byte
	version int
}

// handCommand is a command with what the pipeline gives it.
type handCommand struct {
	order                      string
	quantity                   int
	id, correlation, causation string
}

type handDomain struct {
	mu        sync.RWMutex // guards the fields below
	streams   map[string][][]byte
	snapshots map[string]handSnapshot
	done      map[string]bool // commands by ID
	trail     []handCommand

	handled, commands atomic.Int64
}

func (h *handDomain) append(order string, at int, events []itemAdded) error {
	var encoded [][]byte
	for _, ev := range events {
		data, err := json.Marshal(ev)
		if err != nil {
			return err
		}
		encoded = append(encoded, data)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.streams[order]) != at {
		return errConflict
	}
	h.streams[order] = append(h.streams[order], encoded...)
	return nil
}

func (h *handDomain) Save(_ context.Context, order string, n int) error {
	var made items
	events := make([]itemAdded, n)
	for i := range events {
		events[i] = newItem(i)
		made.add(events[i])
	}
	if err := h.append(order, 0, events); err != nil || n != domain.SnapshotOf {
		return err
	}
	data, err := json.Marshal(made)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.snapshots[order] = handSnapshot{data, n}
	return err
}

// load adds to an order the events after a version.
func (h *handDomain) load(order string, from items, version int) (items, int, error) {
	h.mu.RLock()
	events := h.streams[order]
	h.mu.RUnlock()
	if len(events) == 0 {
		return items{}, 0, errNoOrder
	}
	for _, data := range events[version:] { // what is there does not change
		var ev itemAdded
		if err := json.Unmarshal(data, &ev); err != nil {
			return items{}, 0, err
		}
		from.add(ev)
	}
	return from, len(events), nil
}

func (h *handDomain) Load(_ context.Context, order string) (domain.Order, error) {
	got, version, err := h.load(order, items{}, 0)
	return got.order(uint64(version)), err
}

func (h *handDomain) LoadSnapshot(_ context.Context, order string) (domain.Order, error) {
	h.mu.RLock()
	s := h.snapshots[order]
	h.mu.RUnlock()
	var from items
	if err := json.Unmarshal(s.data, &from); err != nil {
		return domain.Order{}, err
	}
	got, version, err := h.load(order, from, s.version)
	return got.order(uint64(version)), err
}

func (h *handDomain) Add(_ context.Context, order string) error {
	got, version, err := h.load(order, items{}, 0)
	if err != nil {
		return err
	}
	return h.append(order, version, []itemAdded{newItem(got.Count)})
}

func (h *handDomain) Dispatch(ctx context.Context, p domain.Pipeline, order string) error {
	c := &handCommand{order: order, quantity: 1}
	if p == domain.Full {
		c.id = fmt.Sprint(h.commands.Add(1))
	}
	handle := func() error {
		if p < domain.Aggregate {
			h.handled.Add(1)
			return nil
		}
		return h.Add(ctx, c.order)
	}
	switch p {
	case domain.Bare, domain.Aggregate:
		return handle()
	case domain.Validation:
		return validated(c, handle)
	case domain.Four:
		return recovered(func() error { return validated(c, func() error { return caused(c, handle) }) })
	}
	return recovered(func() error {
		return validated(c, func() error { return caused(c, func() error { return h.once(c, handle) }) })
	})
}

func validated(c *handCommand, next func() error) error {
	if c.quantity < 1 {
		return errQuantity
	}
	return next()
}

func recovered(next func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return next()
}

func caused(c *handCommand, next func() error) error {
	if c.correlation == "" {
		c.correlation = rand.Text()
	}
	if c.causation == "" {
		c.causation = c.id
	}
	return next()
}

// once handles a command that was not handled before, and adds a row to the trail.
func (h *handDomain) once(c *handCommand, next func() error) error {
	h.mu.RLock()
	done := h.done[c.id]
	h.mu.RUnlock()
	if done {
		return nil
	}
	if err := next(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done[c.id] = true
	h.trail = append(h.trail, *c)
	return nil
}

func (h *handDomain) Handled() int { return int(h.handled.Load()) }

func (h *handDomain) Clear(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.streams)
	clear(h.snapshots)
	clear(h.done)
	h.trail = nil
	return nil
}

func (h *handDomain) Close() error { return nil }
