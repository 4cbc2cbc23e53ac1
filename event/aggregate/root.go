package aggregate

import (
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/internal/aggregateroot"
)

func init() {
	aggregateroot.Of = func(a any) aggregateroot.Root { return a.(Aggregate).root() }
}

// Aggregate is a domain object that a [Repository] loads and saves: a pointer to a struct that
// embeds [Root].
type Aggregate interface {
	// Apply changes the state according to ev, a value of a Go type that is registered with
	// [event.Types]. It does not decide whether ev is allowed, because the event has happened. For
	// a type that it does not handle it returns nil, which ignores the event, or an error, which
	// fails the load or [Raise].
	Apply(ev any) error

	root() *Root
}

// Root is the part that every aggregate embeds by value: its identity, its version and its
// uncommitted events. Its methods are not safe for concurrent use.
type Root struct {
	// id identifies the aggregate within the category.
	id string
	// version is the expected version of the next save; see [Root.Version].
	version mainstem.Version
	// snapshot is the version of the snapshot that the aggregate was loaded from or that a save
	// wrote last, 0 if there is none.
	snapshot mainstem.Version
	// added is the version of the snapshot that the last [Repository.SaveTo] has added to its batch,
	// 0 if it has added none. It becomes that of snapshot when Clear reports the commit.
	added mainstem.Version
	// uncommitted are the events that were raised and not yet saved, oldest first.
	uncommitted []any
	// metadata was set by [Root.SetMetadata]; a save does not reset it, but Update and UpdateOrNew do.
	metadata event.Metadata
}

// The method root is not exported, so a type of another package can implement [Aggregate] only by
// embedding Root.
var _ interface{ root() *Root } = (*Root)(nil)

func (r *Root) root() *Root { return r }

// ID returns the ID of the aggregate within the repository's category.
func (r *Root) ID() string { return r.id }

// Version returns the version that the next save expects of the stream: that of the newest event
// that was loaded or saved, or of the tombstone if the stream was deleted, else 0. Uncommitted
// events do not count.
func (r *Root) Version() mainstem.Version { return r.version }

// Uncommitted returns the events that were raised and not yet saved, oldest first. The slice
// belongs to the caller.
func (r *Root) Uncommitted() []any { return slices.Clone(r.uncommitted) }

// SetMetadata sets the metadata of the events that later saves append. Its empty fields are taken
// from the context of the save; see [event.WithMetadata]. If the function of [Repository.Update]
// calls it, it holds for that call only, also with [Options.Cache].
func (r *Root) SetMetadata(m event.Metadata) { r.metadata = m }

// Clear completes a [Repository.SaveTo] after the commit of its batch: it removes the uncommitted
// events and sets the version to v, the version of the last of them (see [Repository.Result]). The
// saves that commit by themselves do this for the caller.
func (r *Root) Clear(v mainstem.Version) {
	if r.added != 0 && r.added == v {
		r.snapshot = v
	}
	r.version, r.uncommitted, r.added = v, nil, 0
}

// Raise applies ev to a and adds it to the uncommitted events. If Apply fails, Raise returns its
// error and does not add ev; what Apply had changed before the error stays changed.
func Raise(a Aggregate, ev any) error {
	if err := a.Apply(ev); err != nil {
		return err
	}
	r := a.root()
	r.uncommitted = append(r.uncommitted, ev)
	return nil
}
