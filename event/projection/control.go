package projection

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// control is what all processes that run a projection must agree on: a row of the table
// projection/<store>, under the name of the projection. Every commit of the projection depends
// on the row's revision: when it changes, nothing is written any more by who has not seen that.
type control struct {
	Version    int    `json:"version"`              // of the handlers that wrote what is there
	Paused     bool   `json:"paused,omitempty"`     // nothing is handled
	Rebuilding bool   `json:"rebuilding,omitempty"` // nothing is handled, and what is there is being removed
	Restarts   uint64 `json:"restarts,omitempty"`   // how often a restart was asked for
}

// controls is the table of the control rows.
type controls struct{ table *kv.Bucket[control] }

func openControls(log mainstem.Log, store string) (controls, error) {
	t, err := kv.Open[control](log, "projection/"+store, nil)
	return controls{t}, err
}

// get returns the row of a projection, and the condition that it is still that; found is false if there is none yet.
func (c controls) get(ctx context.Context, name string) (ctl control, is kv.Condition, found bool, err error) {
	e, err := c.table.Get(ctx, name)
	switch {
	case errors.Is(err, mainstem.ErrNotFound):
		return control{}, kv.IfAbsent(), false, nil
	case err != nil:
		return control{}, kv.Condition{}, false, fmt.Errorf("projection %s: read its control row: %w", name, err)
	}
	return e.Value, kv.IfRevision(e.Revision), true, nil
}

// change changes the row of a projection, which must be there.
func (c controls) change(ctx context.Context, name string, f func(*control) error) error {
	_, err := c.table.Modify(ctx, name, func(old control, found bool) (control, error) {
		if !found {
			return old, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "projection " + name, Outcome: mainstem.NotWritten, Hint: "no engine has started it yet"}
		}
		err := f(&old)
		return old, err
	})
	return err
}

// VersionError says that what a projection has written is of handlers of another version. It is
// Unavailable, until [Engine.Rebuild], or the program of the other version, comes.
type VersionError struct {
	Name string
	Have int // what is there
	Want int // the projection's
}

// Error says which versions they are, and what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("projection %s: what is there was computed by version %d, and this is version %d: rebuild it", e.Name, e.Have, e.Want)
}

// Unwrap makes it an error of kind Unavailable.
func (e *VersionError) Unwrap() error {
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "projection", Outcome: mainstem.NotWritten}
}
