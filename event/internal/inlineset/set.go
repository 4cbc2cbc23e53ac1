// Package inlineset is the part of a store's metadata that names its inline projections: those
// whose rows are written in the commits of the events. It is a field of the store's control record, on
// which package event makes every append depend; package projection changes it.
//
//	set, err := inlineset.Read(ctx, log, "shop")
//	inlineset.ReplaceTo(b, "shop", set, append(set.Entries, inlineset.Entry{Name: "totals", Version: 1, State: inlineset.Holding}))
//
// # The states of a projection
//
//	(absent) -> Holding -> On -> Building -> Holding -> On -> Removing -> (absent)
//
// Building: appends go on without it, and the process that rebuilds it handles their events. Holding: no append
// succeeds until those that are left are handled. On: every append calls it. One that is registered on a store
// with events is brought up to date before it is in the set, and Holding for the last of them. Removing: no append
// succeeds until the position is noted up to which it has handled everything.
//
// One that is On may be built anew in tables beside those that it writes (Next > 0):
//
//	NextState  (absent) -> Building -> Holding -> On -> (absent), and Build is what Next was
//
// Building: appends write the tables that are read. Holding: none succeeds. On: they write both. If the handlers are
// of another version, no append can write both, and the tables change places in the commit that ends Holding.
//
// # Concurrency
//
// Everything here may be used by many goroutines; a batch belongs to one.
//
//snippet:var log mainstem.Log
//snippet:var b *mainstem.Batch
//snippet:var ctx context.Context
package inlineset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// The set of a store is a field of its control record, whose other fields say what the index of the
// store is (see package event): every append depends on that one record. Another record is in a space beside:
//
//	event.tag/<store>     key "index"   JSON; field "inline": the entries, absent if there are none
//	event.inline/<store>  key "bypass"  empty; written by each append that goes without inline projections
//	                      key "set"     the entries as they were stored first: an array of JSON. It is read, and
//	                                    the first change replaces it
//
// They are persisted: do not change them. A record with entries has format 2, so that programs that know only
// the index refuse it.
const (
	controlPrefix = "event.tag/"
	prefix        = "event.inline/"
)

var (
	// Control is the key of the control record.
	Control = []byte("index")
	// ControlPolicy is that of its space.
	ControlPolicy = mainstem.Policy{NoFeed: true}

	// Old is the key of a set of the old form.
	Old    = []byte("set")
	bypass = []byte("bypass")
	never  = []byte("never") // is not written by anybody
	policy = mainstem.Policy{History: 1, NoFeed: true}
)

// The formats of a control record.
const (
	Plain = 1 // an index
	Named = 2 // inline projections, and perhaps an index
)

// State is how far a projection is.
type State string

// The states.
const (
	Building State = "building"
	Holding  State = "holding"
	On       State = "on"
	Removing State = "removing"
)

// Entry is an inline projection.
type Entry struct {
	Name    string            `json:"name"`
	Version int               `json:"version"` // of its handlers
	State   State             `json:"state"`
	Since   mainstem.Position `json:"since,omitempty"` // On: events up to here were handled before
	Build   int               `json:"build,omitempty"` // version of the tables that it writes; 0: 1

	// Invariant: if Next is 0 the others are zero, else State is On.
	Next        int               `json:"next,omitempty"`         // version of the tables that are built beside; 0: none are
	NextVersion int               `json:"next_version,omitempty"` // of the handlers that build them
	NextState   State             `json:"next_state,omitempty"`   // Building, Holding or On
	NextSince   mainstem.Position `json:"next_since,omitempty"`   // NextState is On: Since of the new tables
}

// Both reports whether appends write both the tables that are read and those beside.
func (e Entry) Both() bool { return e.Next > 0 && e.NextState == On }

// Held reports whether no append succeeds before somebody with handlers of the version that it returns has gone on.
func (e Entry) Held() (version int, held bool) {
	switch {
	case e.State == Holding:
		return e.Version, true
	case e.NextState == Holding:
		return e.NextVersion, true
	}
	return 0, false
}

// Alone returns e without the tables beside.
func (e Entry) Alone() Entry {
	e.Next, e.NextVersion, e.NextState, e.NextSince = 0, 0, "", 0
	return e
}

// String returns "totals version 1", or "totals version 1 (removing)".
func (e Entry) String() string {
	s := fmt.Sprintf("%s version %d", e.Name, e.Version)
	if e.State == Removing {
		s += " (removing)"
	}
	return s
}

// Set is the inline projections of a store at one moment.
type Set struct {
	Entries  []Entry
	Revision mainstem.Version // of the control record; 0 if there is none

	fields map[string]json.RawMessage // of the control record, the entries too
	old    mainstem.Version           // of the record of the old form; 0 if there is none
}

// Outdated reports whether the set was read in its old form: [ReplaceTo] with its entries brings it into the new one.
func (s Set) Outdated() bool { return s.old > 0 }

// Space returns the name of the space that holds what stands beside the control record of a store.
func Space(store string) string { return prefix + store }

// ControlSpace returns the name of the space of the control record of a store.
func ControlSpace(store string) string { return controlPrefix + store }

// Find returns the entry called name; the zero Entry if there is none.
func (s Set) Find(name string) Entry {
	for _, e := range s.Entries {
		if e.Name == name {
			return e
		}
	}
	return Entry{}
}

// With returns the entries with e in place of the one with its name, or after the others.
func (s Set) With(e Entry) []Entry { return append(s.Without(e.Name), e) }

// Without returns the entries but the one called name.
func (s Set) Without(name string) []Entry {
	out := make([]Entry, 0, len(s.Entries)+1)
	for _, e := range s.Entries {
		if e.Name != name {
			out = append(out, e)
		}
	}
	return out
}

// Read returns the set of a store.
func Read(ctx context.Context, log mainstem.Log, store string) (Set, error) {
	set, err := read(ctx, log, store)
	if err != nil {
		return Set{}, fmt.Errorf("event store %s: read its inline projections: %w", store, err)
	}
	return set, nil
}

func read(ctx context.Context, log mainstem.Log, store string) (set Set, err error) {
	// The control record is read first: changes depend on both, and whatever replaces the old form changes it.
	rec, err := log.Get(ctx, ControlSpace(store), Control)
	switch {
	case errors.Is(err, mainstem.ErrNotFound):
	case err != nil:
		return set, err
	default:
		set.Revision = rec.Version
		if set.fields, set.Entries, err = decodeControl(rec.Value); err != nil {
			return set, corrupt(&rec, err)
		}
	}
	entries, old, err := ReadOld(ctx, log, store)
	if set.old = old; set.Entries == nil {
		set.Entries = entries
	}
	return set, err
}

func corrupt(rec *mainstem.Record, err error) error {
	return mainstem.Errorf(mainstem.KindCorrupt, "decode", "inline projections: %w", err).At(rec.Space, rec.Key)
}

// ReadOld returns the set of a store in its old form, and the version of its record; 0 if there is none.
func ReadOld(ctx context.Context, log mainstem.Log, store string) ([]Entry, mainstem.Version, error) {
	rec, err := log.Get(ctx, Space(store), Old)
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	entries, err := decode(rec.Value)
	if err != nil {
		return nil, 0, corrupt(&rec, err)
	}
	return entries, rec.Version, nil
}

func decodeControl(value []byte) (fields map[string]json.RawMessage, entries []Entry, err error) {
	if err := json.Unmarshal(value, &fields); err != nil {
		return nil, nil, err
	}
	if inline := fields[field]; inline != nil {
		entries, err = decode(inline)
	}
	return fields, entries, err
}

// field is that of the entries in a control record.
const field = "inline"

func decode(value []byte) ([]Entry, error) {
	var entries []Entry
	if err := json.Unmarshal(value, &entries); err != nil {
		return nil, err
	}
	return entries, Check(entries)
}

// Check returns an error for entries that this version does not know.
func Check(entries []Entry) error {
	for _, e := range entries {
		switch {
		case e.State != Building && e.State != Holding && e.State != On && e.State != Removing:
			return fmt.Errorf("%.60q has the state %.40q, which this version does not know", e.Name, e.State)
		case e.Name == "" || e.Version < 1:
			return fmt.Errorf("the name %.60q with version %d: want a name, and a version from 1", e.Name, e.Version)
		case e.Build < 0 || e.Next == 0 && e != e.Alone() || e.Next != 0 && !e.beside():
			return fmt.Errorf("%.60q has tables %d, and beside %d of version %d, %.40q", e.Name, e.Build, e.Next, e.NextVersion, e.NextState)
		}
	}
	return nil
}

// beside reports whether what e says of tables beside is whole.
func (e Entry) beside() bool {
	return e.State == On && e.Next > e.Build && e.NextVersion >= e.Version &&
		(e.NextState == Building || e.NextState == Holding || e.NextState == On && e.NextVersion == e.Version)
}

// ExpectTo adds to b the condition that the control record of a store is still the one with this revision, 0 for none.
func ExpectTo(b *mainstem.Batch, store string, revision mainstem.Version) {
	if revision == 0 {
		b.IfAbsent(ControlSpace(store), Control)
		return
	}
	b.IfVersion(ControlSpace(store), Control, revision)
}

// ReplaceTo replaces the set of a store as part of b, on condition that it, and the rest of the control record, is still was.
func ReplaceTo(b *mainstem.Batch, store string, was Set, entries []Entry) {
	space := ControlSpace(store)
	ExpectTo(b, store, was.Revision)
	b.Ensure(space, ControlPolicy)
	if was.old > 0 {
		b.IfVersion(Space(store), Old, was.old)
		b.Delete(Space(store), Old)
	}
	value, err := encode(was.fields, entries)
	switch {
	case err != nil:
		b.Fail(mainstem.Refusef(mainstem.KindInvalid, "inline projections", "%w", err))
	case value != nil:
		b.Put(space, Control, value)
	case was.Revision > 0:
		b.Delete(space, Control)
	}
}

// encode returns a control record with other entries; nil if nothing is left in it.
func encode(was map[string]json.RawMessage, entries []Entry) ([]byte, error) {
	fields := make(map[string]any, len(was)+1)
	for name, value := range was {
		fields[name] = value
	}
	delete(fields, field)
	delete(fields, "format")
	if len(entries) == 0 && len(fields) == 0 {
		return nil, nil
	}
	fields["format"] = Plain
	if len(entries) > 0 {
		fields["format"], fields[field] = Named, entries
	}
	return json.Marshal(fields)
}

// BypassTo notes, as part of b, that events are appended without the inline projections.
func BypassTo(b *mainstem.Batch, space string) {
	b.Ensure(space, policy)
	b.Put(space, bypass, nil)
}

// Bypassed returns the position of the newest append that went without the inline projections of a
// store; 0 if none did. A projection that is On since an earlier position lacks events.
func Bypassed(ctx context.Context, log mainstem.Log, store string) (mainstem.Position, error) {
	rec, err := log.Get(ctx, Space(store), bypass)
	if errors.Is(err, mainstem.ErrNotFound) {
		return 0, nil
	}
	return rec.Position, err
}

// RefuseTo adds a condition to b that does not hold: its commit finds out what the conditions
// before it, and the batch ID, say, and writes nothing.
func RefuseTo(b *mainstem.Batch, space string) { b.IfExists(space, never) }

// IsOf reports whether e is a conflict about the control record of a store, or a set of the old form.
func IsOf(e *mainstem.Error, store string) bool {
	return e.Space == ControlSpace(store) && bytes.Equal(e.Key, Control) && e.Want.Test != mainstem.TestNotAfter ||
		e.Space == Space(store) && bytes.Equal(e.Key, Old)
}

// IsRefusal reports whether e is the conflict with the condition of RefuseTo.
func IsRefusal(e *mainstem.Error) bool {
	return e.Kind == mainstem.KindConflict && bytes.Equal(e.Key, never) && strings.HasPrefix(e.Space, prefix)
}

// ChangedError says that the set was another when an append was committed than when it was built, and that the
// append, built anew, may succeed. It is a Conflict.
type ChangedError struct {
	Store string
	Cause *mainstem.Error
}

// Error says what has changed.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("event store %s: its inline projections have changed meanwhile", e.Store)
}

// Unwrap returns the error of the log.
func (e *ChangedError) Unwrap() error { return e.Cause }
