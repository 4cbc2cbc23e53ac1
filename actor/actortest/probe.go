package actortest

import (
	"testing"

	"github.com/mainstemdev/mainstem/actor"
)

// Probe is an actor that puts its messages into an [Inbox].
type Probe[M any] struct {
	*Inbox[M]
	ref actor.Ref[M]
}

// NewProbe spawns a probe from s. It fails the test if that fails.
func NewProbe[M any](t testing.TB, s actor.Spawner) *Probe[M] {
	t.Helper()
	box := newInbox[M](t, "probe")
	ref := Spawn(t, s, actor.Func[M](func(_ *actor.Context[M], m M) error {
		box.add(m)
		return nil
	}), nil)
	box.name = ref.String()
	return &Probe[M]{box, ref}
}

// Ref returns the reference of the probe, for the actor under test.
func (p *Probe[M]) Ref() actor.Ref[M] { return p.ref }

// watcher is an actor that monitors another from its start.
type watcher struct {
	other actor.AnyRef
	box   *Inbox[actor.Down]
}

// Start sets the monitor.
func (w *watcher) Start(c *actor.Context[struct{}]) error {
	c.Monitor(w.other, func(d actor.Down) error { w.box.add(d); return nil })
	return nil
}

// Receive has nothing to do.
func (w *watcher) Receive(*actor.Context[struct{}], struct{}) error { return nil }

// Watch monitors an actor, by an actor that is spawned from s. When the present incarnation ends,
// the Inbox gets a Down with the exit reason; if it had ended before, the reason is
// [actor.Missing].
func Watch(t testing.TB, s actor.Spawner, ref actor.AnyRef) *Inbox[actor.Down] {
	t.Helper()
	box := newInbox[actor.Down](t, "end of "+ref.String())
	Spawn(t, s, &watcher{ref, box}, nil)
	return box
}

// DeadLetters collects the dead letters of a node from now on until the end of the test.
func DeadLetters(t testing.TB, n *actor.Node) *Inbox[actor.DeadLetter] {
	t.Helper()
	box := newInbox[actor.DeadLetter](t, "dead letters of "+n.Name())
	t.Cleanup(n.OnDeadLetter(box.add))
	return box
}
