package cluster

import (
	"fmt"
	"slices"
	"sync"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
)

// A frame of a lane arrives after the frames that were sent before it in the same lane. There is
// no order between lanes. A Drain must arrive after all messages that were sent before it, by
// any sender, so in any lane. So it has a number and goes through lane 0, and a mark with the
// same number goes through each other lane. The receiver holds the Drain back until it has
// all marks. Marks are sent first: those of the lanes that share a connection with
// lane 0 then arrive before the Drain.

// controls are the numbered controls of a session: the Drains.
type controls struct {
	sending sync.Mutex // held while the marks of a control and the control are sent; guards last
	last    uint64     // the number of the last one sent

	mu    sync.Mutex              // guards the fields below
	marks [frames.MaxLanes]uint64 // the last one of each lane
	held  []frames.Control        // wait for marks, by increasing number
	fewer chan struct{}           // closed when held is shorter, nil if nobody waits for that
}

// maxHeld is how many controls of a node may wait for marks. At the limit the connection
// that carries lane 0 is not read.
const maxHeld = 1 << 12

// Order sends a Stop, Drain or Kill to an actor of another node.
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

// due reports whether all marks that a control waits for have come. The caller holds mu.
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
	for len(cs.held) > 0 && cs.due(cs.held[0]) { // they came in order
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
