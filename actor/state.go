package actor

import "github.com/mainstemdev/mainstem/internal/invariants"

// The life of an actor. Most actors take the course of the first line. A supervised
// actor is suspended after each incarnation instead.
//
//	             wake          end         part       terminate      finish
//	starting -> idle <-> running -> ending -> ended ------> dead ------> finished
//	    ^              rest          |                       ^
//	    |                            | suspend               | finalize
//	    +--------- restart ------ suspended -----------------+
//
// The table transitions has the rest: draining, closing, passivation.
//
// Invariants:
//   - Every step is taken under the mutex of the core.
//   - In starting, running, draining, ending, closing, ended and dead one goroutine has
//     the actor, and only that one takes the next step. In starting, running, draining,
//     ending and closing only it touches the fields of process that are marked as
//     belonging to it.
//   - In idle, suspended and finished no goroutine has the actor. The one that takes
//     the step out of idle or suspended has it from then on.
//   - From ended on, and while suspended, the links and monitors of the incarnation
//     have been taken from the actor, and a new monitor is answered at once.
//   - No step leads out of finished.

// phase is where an actor is in its life. The order matters: see the methods of state.
type phase uint8

const (
	phaseStarting  phase = iota // the Start method runs; messages wait
	phaseIdle                   // the mailbox is empty
	phaseRunning                // a goroutine handles messages
	phaseDraining               // running, and all messages have been handled that it was to handle before it ends
	phaseEnding                 // children stop, the Stop method runs; messages wait, in case of a restart
	phaseClosing                // ending by passivation: the mailbox refuses messages
	phaseEnded                  // the incarnation is over and there will be no other
	phaseSuspended              // the incarnation is over; the supervisor will restart or finalize the actor
	phaseDead                   // its mailbox is gone; links and monitors are being notified
	phaseFinished               // all is done
	phases         = iota
)

var phaseNames = [phases]string{
	"starting", "idle", "running", "draining", "ending", "closing", "ended", "suspended", "dead", "finished",
}

func (p phase) String() string { return phaseNames[p] }

// lifeEvent is what takes an actor from one phase to the next.
type lifeEvent uint8

const (
	onStarted   lifeEvent = iota // Start has returned without an error, or there is none
	onWake                       // a goroutine takes the actor, to handle messages
	onRest                       // the mailbox is empty
	onDrain                      // the message that asks it to end after all others is handled
	onEnd                        // the incarnation must end
	onPassivate                  // it was idle for too long, and is supervised; or the node stops, for its root
	onShut                       // it was idle for too long, and is not supervised
	onSuspend                    // the incarnation has ended, and the supervisor decides
	onPart                       // the incarnation has ended, and nobody is to decide
	onRestart                    // the supervisor begins a new incarnation
	onFinalize                   // the supervisor lets it go
	onTerminate                  // its own goroutine empties the mailbox
	onFinish                     // links and monitors have been notified
	lifeEvents  = iota
)

var lifeEventNames = [lifeEvents]string{
	"started", "wake", "rest", "drain", "end", "passivate", "shut", "suspend", "part", "restart", "finalize", "terminate", "finish",
}

func (e lifeEvent) String() string { return lifeEventNames[e] }

// transition is one row of the table: what is not in it does not happen.
type transition struct {
	from phase
	on   lifeEvent
	to   phase
}

var transitions = []transition{
	{phaseStarting, onStarted, phaseIdle},
	{phaseStarting, onEnd, phaseEnding}, // Start has failed, or another actor of the same key was first

	{phaseIdle, onWake, phaseRunning},
	{phaseIdle, onPassivate, phaseEnding},
	{phaseIdle, onShut, phaseClosing},

	{phaseRunning, onRest, phaseIdle},
	{phaseRunning, onDrain, phaseDraining},
	{phaseRunning, onEnd, phaseEnding},
	{phaseDraining, onEnd, phaseEnding},

	{phaseEnding, onEnd, phaseEnding}, // after passivate
	{phaseEnding, onSuspend, phaseSuspended},
	{phaseEnding, onPart, phaseEnded},
	{phaseClosing, onEnd, phaseClosing}, // after shut
	{phaseClosing, onPart, phaseEnded},

	{phaseSuspended, onRestart, phaseStarting},
	{phaseSuspended, onFinalize, phaseDead},
	{phaseEnded, onTerminate, phaseDead},
	{phaseDead, onFinish, phaseFinished},
}

// illegal is in next where the table has no row.
const illegal = phase(phases)

// next is the table by event and phase.
var next = func() (n [lifeEvents][phases]phase) {
	for e := range n {
		for p := range n[e] {
			n[e][p] = illegal
		}
	}
	for _, t := range transitions {
		n[t.on][t.from] = t.to
	}
	return n
}()

// state is the state of an actor. The mutex of its core guards it.
//
// Invariant: an actor that is suspended is supervised, but while its supervisor,
// having waited too long for it, lets it go (see release). One that is closing or
// ended is not supervised. Only step writes phase.
type state struct {
	phase      phase
	supervised bool // its parent is a supervisor, which decides what follows an end
}

// step does e. Where the table does not allow it, it changes nothing, and panics in
// builds with invariants.
func (s *state) step(e lifeEvent) {
	to := next[e][s.phase]
	if invariants.Enabled {
		s.check(e, to)
	}
	if to != illegal {
		s.phase = to
	}
}

// stepped is called after each check of a step, in builds with invariants only. Tests set it.
var stepped = func(transition) {}

// check is apart from step so that step is small enough to inline.
func (s *state) check(e lifeEvent, to phase) {
	invariants.Check(to != illegal, "an actor that is %v cannot %v", s.phase, e)
	switch e {
	case onSuspend, onRestart:
		invariants.Check(s.supervised, "%v of an actor without a supervisor", e)
	case onShut, onPart:
		invariants.Check(!s.supervised, "%v of an actor with a supervisor", e)
	}
	stepped(transition{s.phase, e, to})
}

// can reports whether the table allows e.
func (s *state) can(e lifeEvent) bool { return next[e][s.phase] != illegal }

// supervise is called once, before there is a reference to the actor.
func (s *state) supervise() { s.supervised = true }

// release is called when the supervisor leaves the actor behind. It reports whether
// the supervisor must finalize it, since the incarnation has just ended after all.
func (s *state) release() (finalize bool) {
	s.supervised = false
	return s.phase == phaseSuspended
}

// alive reports whether the actor handles messages, or will when it has been started.
func (s *state) alive() bool { return s.phase < phaseEnding }

// busy reports whether a goroutine has an actor that is alive, or is about to.
func (s *state) busy() bool { return s.phase != phaseIdle && s.phase < phaseEnding }

// open reports whether the mailbox takes messages. A message that it takes while the actor is
// ending or suspended is handled by the next incarnation, or becomes dead letters.
func (s *state) open() bool { return s.phase <= phaseEnding || s.phase == phaseSuspended }

// past reports whether the incarnation has ended as far as links and monitors are concerned.
func (s *state) past() bool { return s.phase >= phaseEnded }

// gone reports whether the actor has ended for good.
func (s *state) gone() bool { return s.phase == phaseEnded || s.phase >= phaseDead }

// quiet reports whether there is no end to wait for: the incarnation has ended, and
// if it was the last, all is done that follows.
func (s *state) quiet() bool { return s.phase == phaseSuspended || s.phase == phaseFinished }

// label returns the phase in the words of [Info].
func (s *state) label() string {
	switch s.phase {
	case phaseStarting, phaseDraining:
		return phaseRunning.String()
	case phaseClosing, phaseEnded:
		return phaseEnding.String()
	case phaseFinished:
		return phaseDead.String()
	}
	return s.phase.String()
}
