package cluster

import (
	"fmt"
	"slices"
	"sync"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
)

// A control is a Stop, Drain or Kill. A Drain ends an actor after all messages that were sent before
// it, by any sender, so in any lane; but frames of different lanes have no order. Therefore:
//
//  1. The sender gives the Drain a number, sends a mark of that number through every lane but 0, and
//     then the Drain through lane 0.
//  2. The receiver holds the Drain back until the mark of every lane has come. Then all frames that
//     were sent before it, in any lane, have been handled.
//
// The marks are sent first, so that those of the lanes that share a connection with lane 0 arrive
// before the Drain: at maxHeld the reader of that connection waits for marks, which must then come
// over other connections. Stop and Kill do not wait for messages, and have no number.

// controls are the numbered controls of a session, in both directions.
type controls struct {
	sending sync.Mutex // held while the marks of a control and the control are sent; guards last
	last    uint64     // the number of the last control sent

	mu    sync.Mutex              // guards the fields below
	marks [frames.MaxLanes]uint64 // the number of the last mark that came, by lane
	held  []frames.Control        // controls of the peer that wait for marks, by increasing number
	fewer chan struct{}           // closed when held is shorter, nil if nobody waits for that
}

// maxHeld is the number of controls of a node that may wait for marks. At the limit the connection
// that carries lane 0 is not read.
const maxHeld = 1 << 12

// Order implements [actor.Transport]: it sends a Stop, Drain or Kill to an actor of another node.
// If the node is not reached it does nothing.
func (c *Cluster) Order(to actor.Address, o actor.Order) {
	s, err := c.live(c.life, to)
	if err != nil {
		return
	}
	f := frames.Control{To: target(to), Order: byte(o)}
	if o != actor.OrderDrain {
		s.replies.send(0, f.Append)
		return
	}
	cs := &s.controls
	cs.sending.Lock()
	defer cs.sending.Unlock()
	cs.last++
	f.After, f.Lanes = cs.last, lanes
	mark := frames.Mark{Number: cs.last}
	for from := uint64(1); from < lanes; from++ {
		s.replies.send(from, mark.Append)
	}
	s.replies.send(0, f.Append)
}

func (s *session) onControl(body []byte) error {
	f, err := frames.ParseControl(body)
	if err != nil {
		return err
	}
	if f.Order > byte(actor.OrderKill) {
		return fmt.Errorf("%w: order %d", frames.ErrMalformed, f.Order)
	}
	cs := &s.controls
	cs.mu.Lock()
	for len(cs.held) >= maxHeld && !cs.due(f) {
		if cs.fewer == nil {
			cs.fewer = make(chan struct{})
		}
		fewer := cs.fewer
		cs.mu.Unlock()
		select {
		case <-fewer:
		case <-s.life.Done():
			return nil
		}
		cs.mu.Lock()
	}
	due := cs.due(f)
	if !due {
		cs.held = append(cs.held, f)
	}
	cs.mu.Unlock()
	if due {
		s.handleControl(f)
	}
	return nil
}

func (s *session) handleControl(f frames.Control) {
	s.cluster.in.Order(s.here(f.To), actor.Order(f.Order))
}

// due reports whether the marks that a control waits for have all come. The caller holds mu.
func (cs *controls) due(f frames.Control) bool {
	for lane := uint64(1); lane < f.Lanes; lane++ {
		if cs.marks[lane] < f.After {
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
	cs := &s.controls
	cs.mu.Lock()
	if lane >= frames.MaxLanes || f.Number <= cs.marks[lane] {
		cs.mu.Unlock()
		return fmt.Errorf("%w: mark %d of lane %d", frames.ErrMalformed, f.Number, lane)
	}
	cs.marks[lane] = f.Number
	var now []frames.Control
	for len(cs.held) > 0 && cs.due(cs.held[0]) { // in the order of their numbers
		now = append(now, cs.held[0])
		cs.held = slices.Delete(cs.held, 0, 1)
	}
	if len(now) > 0 && cs.fewer != nil {
		close(cs.fewer)
		cs.fewer = nil
	}
	cs.mu.Unlock()
	for _, f := range now {
		s.handleControl(f)
	}
	return nil
}
