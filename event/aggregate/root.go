package aggregate

import (
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Aggregate is what a [Repository] loads and saves: a struct that embeds [Root], behind a pointer.
type Aggregate interface {
	// Apply changes the state as an event says that it changed. The value is what
	// [event.Types] decodes, one of a registered Go type. It decides nothing: the event
	// has happened. Types that it does not know it ignores, or returns an error for.
	Apply(ev any) error

	root() *Root
}

// Root is what an aggregate embeds by value: the identity, the version and the events that
// were raised and not saved yet. Its methods are not safe for concurrent use.
type Root struct {
	id          string
	version     mainstem.Version
	snapshot    mainstem.Version // of the snapshot that it was loaded from, or that was saved last; 0 if none
	uncommitted []any
	metadata    event.Metadata
}

// Embedding is the only way to have root: an aggregate cannot be without a Root.
var _ interface{ root() *Root } = (*Root)(nil)

func (r *Root) root() *Root { return r }

// ID returns the identity within the repository's category.
func (r *Root) ID() string { return r.id }

// Version returns the version of the newest event of the stream that the state contains,
// without those that are not saved yet; 0 for an aggregate that has none.
func (r *Root) Version() mainstem.Version { return r.version }

// Uncommitted returns the events that were raised and not saved, oldest first. The slice
// belongs to the caller.
func (r *Root) Uncommitted() []any { return slices.Clone(r.uncommitted) }

// SetMetadata sets the metadata of the events that the next saves write. Fields that are
// empty are taken from the context of the save; see [event.WithMetadata].
func (r *Root) SetMetadata(m event.Metadata) { r.metadata = m }

// Clear ends the save that [Repository.SaveTo] began: after the commit of its batch, the events
// are no longer uncommitted and the aggregate is at version v, their last (see
// [event.Store.Result]). The other saves do that themselves.
func (r *Root) Clear(v mainstem.Version) {
	r.version, r.uncommitted = v, nil
}

// Raise lets ev happen to a: it applies ev, and remembers it to be saved. If Apply
// fails, ev is not remembered, and its error is returned; what Apply had changed by then stays.
func Raise(a Aggregate, ev any) error {
	if err := a.Apply(ev); err != nil {
		return err
	}
	r := a.root()
	r.uncommitted = append(r.uncommitted, ev)
	return nil
}
