package projection

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/kv"
)

// control is what all processes that run a projection must agree on: a row of the table
// projection/<store>, under the name of the projection. Every commit of the projection depends
// on the row's revision: when it changes, nothing is written any more by who has not seen that.
//
// Two things are changed in steps, each a commit that any engine may make: the number of
// partitions, and the tables, which are built anew beside those that are read.
//
//	Frozen     nothing is handled: the checkpoints stand still, and the greatest is found
//	Aligning   each partition goes on up to that, and no further
//	done       one commit: new checkpoints there, and the new number, or the new tables
//
// Invariant: at most one of Rebuilding, Frozen and Aligning.
type control struct {
	Version    int    `json:"version"`              // of the handlers that wrote what is read
	Paused     bool   `json:"paused,omitempty"`     // nothing is handled, but for tables that are being built
	Rebuilding bool   `json:"rebuilding,omitempty"` // nothing is handled, and what is there is being removed
	Restarts   uint64 `json:"restarts,omitempty"`   // how often a restart was asked for
	Inline     bool   `json:"inline,omitempty"`     // the appends handle it: no engine does

	Partitions int               `json:"partitions,omitempty"` // 0: one
	Epoch      uint64            `json:"epoch,omitempty"`      // grows whenever the checkpoints are replaced
	Resize     int               `json:"resize,omitempty"`     // the number that is to be next; 0: none is
	Frozen     bool              `json:"frozen,omitempty"`
	Aligning   bool              `json:"aligning,omitempty"`
	Upto       mainstem.Position `json:"upto,omitempty"` // while Aligning

	Build       int               `json:"build,omitempty"`        // version of the tables that is read; 0: 1
	Builds      int               `json:"builds,omitempty"`       // the highest that was ever begun: none is used again
	Next        int               `json:"next,omitempty"`         // version that is being built; 0: none is
	NextVersion int               `json:"next_version,omitempty"` // of the handlers that rebuild; 0: whose engine comes first
	From        mainstem.Position `json:"from,omitempty"`         // the rebuild handles what is after this
	To          mainstem.Position `json:"to,omitempty"`           // and up to this; 0: without end
	Keep        time.Duration     `json:"keep,omitempty"`         // how long the tables stay that are read no more

	Tables string `json:"tables,omitempty"` // names of the tables that are built anew by a rebuild, with commas between
	Clears bool   `json:"clears,omitempty"` // what is there can be removed
}

// partitions returns how many subscriptions the projection has.
func (c *control) partitions() int { return max(c.Partitions, 1) }

// then returns how many it will have when the change under way is done.
func (c *control) then() int {
	if c.Resize > 0 {
		return c.Resize
	}
	return c.partitions()
}

// subscriptions returns the names of the n subscriptions of a projection: of those that write the tables that
// are read, or, if build is not 0, of those that build that version.
func subscriptions(name string, build, n int) []string {
	name = setName(name, build)
	if n <= 1 {
		return []string{name}
	}
	names := make([]string, n)
	for i := range names {
		names[i] = name + "#" + strconv.Itoa(i)
	}
	return names
}

func setName(name string, build int) string {
	if build > 0 {
		return fmt.Sprintf("%s@v%d", name, build)
	}
	return name
}

// MaxName is the most bytes that the name of a projection may have: those of its subscriptions are longer.
const MaxName = event.MaxSubscription - 32

// controls is the tables of the control rows, and of what else the engines of a store leave for each other.
type controls struct {
	table  *kv.Bucket[control]
	faults *kv.Bucket[fault]    // by subscription
	old    *kv.Bucket[oldBuild] // by projection and version
}

func openControls(log mainstem.Log, store string) (c controls, err error) {
	if c.table, err = kv.Open[control](log, "projection/"+store, nil); err != nil {
		return c, err
	}
	if c.faults, err = kv.Open[fault](log, "projection-faults/"+store, nil); err != nil {
		return c, err
	}
	c.old, err = kv.Open[oldBuild](log, "projection-old/"+store, nil)
	return c, err
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

func unknown(name string) error {
	return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "projection " + name, Outcome: mainstem.NotWritten, Hint: "no engine has started it yet"}
}

// change changes the row of a projection, which must be there.
func (c controls) change(ctx context.Context, name string, f func(*control) error) error {
	_, err := c.table.Modify(ctx, name, func(old control, found bool) (control, error) {
		if !found {
			return old, unknown(name)
		}
		if old.Inline {
			return old, errInline(name)
		}
		err := f(&old)
		return old, err
	})
	return err
}

// changeWith is change with more in the commit: f writes it into b.
func (c controls) changeWith(ctx context.Context, log mainstem.Log, name string, f func(ctl *control, b *mainstem.Batch) error) (control, error) {
	for n := 1; ; n++ {
		ctl, is, found, err := c.get(ctx, name)
		if err == nil && !found {
			err = unknown(name)
		}
		if err == nil && ctl.Inline {
			err = errInline(name)
		}
		if err != nil {
			return ctl, err
		}
		before, b := ctl, mainstem.NewBatch()
		if err := f(&ctl, b); err != nil || ctl == before && b.Len() == 0 {
			return ctl, err
		}
		c.table.PutTo(b, name, ctl, is)
		if _, err = log.Commit(ctx, b); !errors.Is(err, mainstem.ErrConflict) {
			return ctl, err
		}
		if !again.Wait(ctx, n) {
			return ctl, mainstem.Ended(ctx, "projection "+name, time.Time{}, "others that change its control row")
		}
	}
}

// errInline is the error of what an engine cannot do with an inline projection.
func errInline(name string) error {
	return mainstem.Refusef(mainstem.KindUnavailable, "projection", "%s is an inline projection: the appends of its programs handle it", name).
		WithHint("its own program rebuilds it, by InlineStore.Rebuild, or by OpenInline with InlineOptions.Rebuild; while it has tables, beside those that are read")
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
