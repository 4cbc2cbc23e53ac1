package actor

import "time"

// idler is the timer that passivates an actor (Options.Idle). The mutex of the actor guards it.
//
// Messages do not touch the timer, so they cost nothing. It is set when the actor becomes idle and
// is not set yet. When it fires and the actor is not idle, it stays unset until the actor is; when
// the actor has been idle for too short a time, it is set for the rest.
type idler struct {
	timer *time.Timer
	since time.Time // when the actor became idle last
	set   bool      // the timer will fire
}

// idleLocked notes that the actor has become idle and sets the timer. The caller holds p.mu.
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

// passivate ends the actor if it has been idle for Options.Idle; its timer calls it.
//
// The mailbox of an unsupervised actor closes in the same step: from then on Send fails, so that no
// message is accepted that nobody will handle. The mailbox of a supervised actor stays open, since
// its supervisor may restart it; if it does not, the messages become dead letters.
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
		return // idleLocked sets the timer again
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
