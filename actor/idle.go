package actor

import "time"

// idler passivates an actor. Its timer is set when the actor becomes idle and
// not touched by messages: when it fires too early, it is set again.
type idler struct {
	timer *time.Timer
	since time.Time // when the actor became idle last
	set   bool
}

// idleLocked notes that the actor has become idle. The caller holds p.mu.
func (p *process[M]) idleLocked() {
	r := p.more()
	if r.idle == nil {
		r.idle = &idler{timer: time.AfterFunc(p.set.Idle, p.passivate)}
		r.idle.set = true
	}
	r.idle.since = time.Now()
	if !r.idle.set {
		r.idle.set = true
		r.idle.timer.Reset(p.set.Idle)
	}
}

// passivate ends the actor if it has been idle long enough. From that moment its
// mailbox is shut, so nothing is lost: a message is handled, or its Send fails.
func (p *process[M]) passivate() {
	p.mu.Lock()
	r := p.coreExtras
	if !p.state.alive() || r == nil || r.idle == nil {
		p.mu.Unlock()
		return
	}
	r.idle.set = false
	if p.state.phase != phaseIdle {
		p.mu.Unlock()
		return // set again when it is idle
	}
	if left := p.set.Idle - time.Since(r.idle.since); left > 0 {
		r.idle.set = true
		r.idle.timer.Reset(left)
		p.mu.Unlock()
		return
	}
	if p.state.supervised {
		p.state.step(onPassivate)
	} else {
		p.state.step(onShut)
	}
	p.mu.Unlock()
	p.end(Passivated)
}
