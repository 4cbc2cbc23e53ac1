package cluster

import (
	"fmt"
	"slices"
	"sync"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
)

// Lanes keep the order of what is in one, but to drain an actor is to handle first
// all that was sent to it before, by any sender. So that order has a number, goes through the
// first lane, and counts when each of the others has brought the mark of its number. Marks
// go first: those of the lanes that share a connection with the order have come when it has.

// orders are those of a session that are numbered.
type orders struct {
	sending sync.Mutex // held while the marks of an order and the order go out; guards last
	last    uint64

	mu    sync.Mutex // guards the fields below
	marks [frames.MaxLanes]uint64
	held  []frames.Order
	fewer chan struct{} // closed when held is shorter, nil if nobody waits for that
}

// maxHeld is how many orders of a node wait for marks; then the connection of its first lane does.
const maxHeld = 1 << 12

// Order tells an actor of another node to end.
func (c *Cluster) Order(to actor.Address, o actor.Order) {
	s, err := c.live(c.life, to)
	if err != nil {
		return
	}
	f := frames.Order{To: target(to), Order: byte(o)}
	if o != actor.OrderDrain {
		s.replies.send(0, f.Append)
		return
	}
	os := &s.orders
	os.sending.Lock()
	defer os.sending.Unlock()
	os.last++
	f.After, f.Lanes = os.last, lanes
	mark := frames.Mark{Number: os.last}
	for from := uint64(1); from < lanes; from++ {
		s.replies.send(from, mark.Append)
	}
	s.replies.send(0, f.Append)
}

func (s *session) onOrder(body []byte) error {
	f, err := frames.ParseOrder(body)
	if err != nil {
		return err
	}
	if f.Order > byte(actor.OrderKill) {
		return fmt.Errorf("%w: order %d", frames.ErrMalformed, f.Order)
	}
	os := &s.orders
	os.mu.Lock()
	for len(os.held) >= maxHeld && !os.due(f) {
		if os.fewer == nil {
			os.fewer = make(chan struct{})
		}
		fewer := os.fewer
		os.mu.Unlock()
		select {
		case <-fewer:
		case <-s.life.Done():
			return nil
		}
		os.mu.Lock()
	}
	due := os.due(f)
	if !due {
		os.held = append(os.held, f)
	}
	os.mu.Unlock()
	if due {
		s.handleOrder(f)
	}
	return nil
}

func (s *session) handleOrder(f frames.Order) {
	s.cluster.in.Order(s.here(f.To), actor.Order(f.Order))
}

// due reports whether all marks that an order waits for have come. The caller holds mu.
func (os *orders) due(f frames.Order) bool {
	for lane := uint64(1); lane < f.Lanes; lane++ {
		if os.marks[lane] < f.After {
			return false
		}
	}
	return true
}

func (s *session) onMark(lane uint32, body []byte) error {
	f, err := frames.ParseMark(body)
	if err != nil {
		return err
	}
	os := &s.orders
	os.mu.Lock()
	if lane >= frames.MaxLanes || f.Number <= os.marks[lane] {
		os.mu.Unlock()
		return fmt.Errorf("%w: mark %d of lane %d", frames.ErrMalformed, f.Number, lane)
	}
	os.marks[lane] = f.Number
	var now []frames.Order
	for len(os.held) > 0 && os.due(os.held[0]) { // they came in order
		now = append(now, os.held[0])
		os.held = slices.Delete(os.held, 0, 1)
	}
	if len(now) > 0 && os.fewer != nil {
		close(os.fewer)
		os.fewer = nil
	}
	os.mu.Unlock()
	for _, f := range now {
		s.handleOrder(f)
	}
	return nil
}
