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

// control is the state of a projection on which all its engines agree: its row of the table
// projection/<store>, by the projection's name, stored as JSON. Every commit of the projection,
// including each step below, is conditional on the revision of the row. So a change of the row ends
// all commits that were prepared before it.
//
// Two changes need all partitions at one position. If the number of partitions changes (Resize),
// streams move between checkpoints. If new tables replace old ones (Next), the new ones must
// continue exactly where the old ones end. Both take these steps, each a commit that any engine may
// make; see steps.go:
//
//	(none)     partitions advance independently; while Next > 0 its tables are built beside
//	Frozen     nothing is handled; the greatest checkpoint of all partitions becomes Upto
//	Aligning   each partition, or with Next each partition of the new tables, ends at Upto; left out
//	           if Upto would be 0
//	(none)     one commit: new checkpoints at Upto, with the new number, the new tables or both
//
// A rebuild up to a position (To) needs no alignment, because its tables end at To. A rebuild in
// place sets Rebuilding: nothing is handled, one engine removes the rows, and one commit sets the
// checkpoints to From.
//
// Invariants: at most one of Rebuilding, Frozen and Aligning is set. Upto is above 0 if Aligning is
// set, else 0. If Next is 0, so are NextVersion (except in a rebuild in place), To, Keep and
// Moving. Build and Next are at most Builds, unless no rebuild was ever begun. If Replay is 0, so are
// ReplayVersion, ReplayUntil and ReplayInto; a replay is independent of everything else in the row.
type control struct {
	Version    int    `json:"version"`              // of the handlers that wrote the rows that are read
	Paused     bool   `json:"paused,omitempty"`     // nothing is handled, except for tables that are being built
	Rebuilding bool   `json:"rebuilding,omitempty"` // nothing is handled; the rows are being removed
	Restarts   uint64 `json:"restarts,omitempty"`   // number of restarts; a change makes engines begin again
	Inline     bool   `json:"inline,omitempty"`     // the projection is inline: no engine may run it
	Stale      bool   `json:"stale,omitempty"`      // it was inline, and lacks events that were appended without it; until a rebuild

	Partitions int               `json:"partitions,omitempty"` // number of partitions; 0 means one
	Epoch      uint64            `json:"epoch,omitempty"`      // incremented when the checkpoints are replaced
	Resize     int               `json:"resize,omitempty"`     // the next number of partitions; 0: no change
	Frozen     bool              `json:"frozen,omitempty"`
	Aligning   bool              `json:"aligning,omitempty"`
	Upto       mainstem.Position `json:"upto,omitempty"` // where partitions end while Aligning

	Build       int               `json:"build,omitempty"`        // version of the tables that are read; 0 means 1
	Builds      int               `json:"builds,omitempty"`       // the highest version that was ever begun; versions are not reused
	Next        int               `json:"next,omitempty"`         // version that is being built; 0: none
	NextVersion int               `json:"next_version,omitempty"` // of the handlers that rebuild; 0: those of the first engine that comes
	From        mainstem.Position `json:"from,omitempty"`         // a rebuild handles the events after this
	To          mainstem.Position `json:"to,omitempty"`           // and up to this; 0 means without end
	Keep        time.Duration     `json:"keep,omitempty"`         // how long old tables are kept after a rebuild
	Moving      bool              `json:"moving,omitempty"`       // the end of a rebuild has dropped parked events, and moves others; see parked.go

	Replay        int               `json:"replay,omitempty"`         // number of the replay that is under way; 0: none
	Replays       int               `json:"replays,omitempty"`        // the highest number that was ever begun
	Replayed      int               `json:"replayed,omitempty"`       // number of the replay that was finished last
	ReplayedToo   uint64            `json:"replayed_too,omitempty"`   // of the 64 before that: bit i is set if number Replayed-1-i was finished
	ReplayVersion int               `json:"replay_version,omitempty"` // of the handlers that replay
	ReplayUntil   mainstem.Position `json:"replay_until,omitempty"`   // where it ends
	ReplayInto    string            `json:"replay_into,omitempty"`    // the tables that it writes, by those of the projection: a JSON object

	Tables string `json:"tables,omitempty"` // names of the tables that a blue/green rebuild builds, separated by commas
	Clears bool   `json:"clears,omitempty"` // the rows can be removed, so that a rebuild in place is possible

	Described int `json:"described,omitempty"` // version of the handlers that Tables and Clears are of; 0: unknown
}

// leaves reports whether there may be old tables or parked events to remove since the row was before.
// It is asked of the rows that a unit follows one after the other: where the change is committed, the
// end of the generation may cancel the commit before it has returned; and the end of a generation may
// be known before the row that ends it is read.
func (c *control) leaves(before *control) bool {
	return c.Build != before.Build || c.Builds != before.Builds || c.Next != before.Next ||
		c.Replay != before.Replay || c.Replays != before.Replays
}

// partitions returns the present number of partitions, at least 1.
func (c *control) partitions() int { return max(c.Partitions, 1) }

// then returns the number of partitions after the change under way.
func (c *control) then() int {
	if c.Resize > 0 {
		return c.Resize
	}
	return c.partitions()
}

// finishedReplay notes that replay n was finished; its number is above Replayed.
func (c *control) finishedReplay(n int) {
	if c.Replayed > 0 {
		c.ReplayedToo = (c.ReplayedToo<<1 | 1) << (n - c.Replayed - 1)
	}
	c.Replayed = n
}

// isReplayed reports whether replay n was finished. It does not know it of numbers that are more
// than 64 below Replayed.
func (c *control) isReplayed(n int) bool {
	return n == c.Replayed || n < c.Replayed && c.ReplayedToo>>(c.Replayed-n-1)&1 == 1
}

// subscriptions returns the names of the n subscriptions of a projection that write the tables that
// are read or, if build is not 0, those that build that version.
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

// setName returns the name of a projection's subscription that is not divided into partitions: NAME
// or NAME@vBUILD.
func setName(name string, build int) string {
	if build > 0 {
		return fmt.Sprintf("%s@v%d", name, build)
	}
	return name
}

// MaxName is the maximum length of the name of a projection in bytes. The names of its
// subscriptions are longer.
const MaxName = event.MaxSubscription - 32

// controls has the tables through which the engines of a store coordinate.
type controls struct {
	table  *kv.Bucket[control]  // by projection
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

// get returns the row of a projection and the condition that it is unchanged. If there is no row,
// found is false and the condition is that there is none.
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

// unknown returns the error for a projection without a control row. It is NotFound.
func unknown(name string) error {
	return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "projection " + name, Outcome: mainstem.NotWritten, Hint: "no engine has started it yet"}
}

// change applies f to the row of a projection. A row that does not exist is NotFound, that of an
// inline projection Unavailable.
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

// changeWith is change with further writes in the same commit: f adds them to b. f is called again
// after a conflict. If f changes nothing, nothing is committed.
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

// errInline returns the error for an operation of an engine on an inline projection. It is
// Unavailable.
func errInline(name string) error {
	return mainstem.Refusef(mainstem.KindUnavailable, "projection", "%s is an inline projection: the appends of its programs handle it", name).
		WithHint("its own program rebuilds it, by InlineStore.Rebuild, or by OpenInline with InlineOptions.Rebuild; while it has tables, beside those that are read")
}

// VersionError reports that the rows of a projection were computed by handlers of another version.
// It is Unavailable: a rebuild, or the program of the other version, resolves it.
type VersionError struct {
	Name string
	Have int // version of the handlers that computed the rows
	Want int // version of the program's projection
}

// Error names the versions and what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("projection %s: what is there was computed by version %d, and this is version %d: rebuild it", e.Name, e.Have, e.Want)
}

// Unwrap makes it an error of kind Unavailable.
func (e *VersionError) Unwrap() error {
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "projection", Outcome: mainstem.NotWritten}
}
