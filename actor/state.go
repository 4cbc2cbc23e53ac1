package actor

import "github.com/mainstemdev/mainstem/internal/invariants"

// The life of an actor is a state machine: ten phases, and the events that lead from one to
// another. Most actors go along the first line of the drawing. A supervised actor is suspended
// after each incarnation instead, until its supervisor restarts or finalizes it.
//
//	             wake          end         part       terminate      finish
//	starting -> idle <-> running -> ending -> ended ------> dead ------> finished
//	    ^              rest          |                       ^
//	    |                            | suspend               | finalize
//	    +--------- restart ------ suspended -----------------+
//
// The table transitions has all steps, also those of draining, closing and passivation.
//
// A goroutine "has" the actor while it may run the actor's functions and write the fields of
// process that belong to it. The phase says whether there is such a goroutine, so that having an
// actor needs no lock.
//
// Invariants:
//   - Every step is taken under the mutex of the core.
//   - In starting, running, draining, ending, closing, ended and dead exactly one goroutine has
//     the actor, and only that one takes the next step.
//   - In idle, suspended and finished no goroutine has the actor. The goroutine that takes the
//     step out of idle or suspended has it from then on, or hands it to one that it starts.
//   - While the actor is suspended, and from ended on, it has no links and monitors: those of the
//     incarnation have been taken from it, and a new monitor is answered at once with Missing.
//   - No step leads out of finished.
//
// OTP has no counterpart of suspended, draining and closing: a restarted process is another
// process there, with a new pid and an empty mailbox, and passivation is left to the program.

// phase is the phase of the life of an actor. The methods of state compare phases by their order.
type phase uint8

const (
	phaseStarting  phase = iota // the Start method runs; messages wait
	phaseIdle                   // the mailbox is empty
	phaseRunning                // a goroutine handles messages
	phaseDraining               // the last message before a Drain has been handled; the actor ends next
	phaseEnding                 // children stop, then the Stop method runs; the mailbox stays open
	phaseClosing                // the same after the passivation of an unsupervised actor; the mailbox is closed
	phaseEnded                  // the incarnation has ended and there will be no other
	phaseSuspended              // the incarnation has ended; the supervisor restarts or finalizes the actor
	phaseDead                   // the mailbox is empty and closed; links and monitors are being notified
	phaseFinished               // links and monitors have been notified
	phases         = iota
)

var phaseNames = [phases]string{
	"starting", "idle", "running", "draining", "ending", "closing", "ended", "suspended", "dead", "finished",
}

func (p phase) String() string { return phaseNames[p] }

// lifeEvent is an event that leads from one phase to another.
type lifeEvent uint8

const (
	onStarted   lifeEvent = iota // Start has returned without an error, or there is none
	onWake                       // a goroutine takes the actor, to handle messages
	onRest                       // the mailbox is empty
	onDrain                      // the task of a Drain has come to the front of the mailbox
	onEnd                        // the incarnation must end
	onPassivate                  // a supervised actor was idle for Options.Idle; or the node stops (its root)
	onShut                       // an unsupervised actor was idle for Options.Idle
	onSuspend                    // the incarnation of a supervised actor has ended
	onPart                       // the incarnation of an unsupervised actor has ended
	onRestart                    // the supervisor begins a new incarnation
	onFinalize                   // the supervisor ends the suspended actor for good
	onTerminate                  // the goroutine that has the actor closes the mailbox
	onFinish                     // links and monitors have been notified
	lifeEvents  = iota
)

var lifeEventNames = [lifeEvents]string{
	"started", "wake", "rest", "drain", "end", "passivate", "shut", "suspend", "part", "restart", "finalize", "terminate", "finish",
}

func (e lifeEvent) String() string { return lifeEventNames[e] }

// transition is one row of the table. A step that has no row is never taken.
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

// illegal is the value of next for a step that has no row in the table.
const illegal = phase(phases)

// next is the table as an array: the phase to which an event leads from a phase.
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
// Invariants:
//   - An actor that is suspended is supervised. The one exception lasts from release to finalize,
//     if it ended just when its supervisor had waited for its Grace and left it behind.
//   - An actor that is closing or ended is not supervised.
//   - Only step writes phase.
type state struct {
	phase      phase
	supervised bool // its parent is a supervisor, which decides what follows an end
}

// step takes the step for e. If the table has no such step, it changes nothing, and panics in
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

// stepped is called for each step in builds with invariants. Tests set it.
var stepped = func(transition) {}

// check panics if the step for e is not allowed. It is not part of step so that the compiler can
// inline step.
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

// can reports whether the table has a step for e from the present phase.
func (s *state) can(e lifeEvent) bool { return next[e][s.phase] != illegal }

// supervise is called once, before there is a reference to the actor.
func (s *state) supervise() { s.supervised = true }

// release is called when a parent leaves the actor behind because its Grace is over. It reports
// whether the actor was suspended just before: the parent must finalize it then.
func (s *state) release() (finalize bool) {
	s.supervised = false
	return s.phase == phaseSuspended
}

// alive reports whether the actor handles messages, or will when its Start method has returned.
func (s *state) alive() bool { return s.phase < phaseEnding }

// busy reports whether the actor is alive and not idle.
func (s *state) busy() bool { return s.phase != phaseIdle && s.phase < phaseEnding }

// open reports whether the mailbox accepts messages. A message that it accepts while the actor is
// ending or suspended is handled by the next incarnation, or becomes a dead letter if there is
// none.
func (s *state) open() bool { return s.phase <= phaseEnding || s.phase == phaseSuspended }

// past reports whether links and monitors have been taken from the incarnation, so that a new
// monitor is answered at once.
func (s *state) past() bool { return s.phase >= phaseEnded }

// gone reports whether the actor has ended for good.
func (s *state) gone() bool { return s.phase == phaseEnded || s.phase >= phaseDead }

// quiet reports whether there is no end to wait for: the incarnation has ended, and if it was the
// last, its links and monitors have been notified.
func (s *state) quiet() bool { return s.phase == phaseSuspended || s.phase == phaseFinished }

// label returns Info.State for the phase.
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
