// Package inlineset reads and writes the set of inline projections of a store: the projections
// whose rows are written in the commits of the events. The set is a field of the store's control
// record. Package event makes every append depend on the version of that record; package projection
// changes the set.
//
//	set, err := inlineset.Read(ctx, log, "shop")
//	inlineset.ReplaceTo(b, "shop", set, append(set.Entries, inlineset.Entry{Name: "totals", Version: 1, State: inlineset.Holding}))
//
// # The states of a projection
//
//	(absent)  appends do not include the projection
//	Holding   no append succeeds until the events that are left are handled
//	On        every append calls the handlers
//	Building  appends do not include the projection; the process that rebuilds it handles the events
//	Removing  no append succeeds until the position up to which all events are handled is recorded
//
// The transitions:
//
//	(absent) -> Holding -> On         switched on; older events are handled while it is absent
//	On -> Building -> Holding -> On   rebuilt in place
//	On -> Removing -> (absent)        removed
//	Building, Holding -> (absent)     removed before it was On
//	Holding -> (absent) or Building   as before Holding, if the last events could not be handled
//
// A projection that is On may be rebuilt in new tables beside the ones that it writes (Next > 0).
// NextState then says which tables appends write:
//
//	Building  the tables that are read
//	Holding   none: no append succeeds
//	On        both
//
// The transitions of NextState are (absent) -> Building -> Holding -> On -> (absent). In the last
// one Build becomes what Next was. If the new handlers have another version, no program can write
// both tables; then the commit that ends Holding exchanges the tables. A rebuild that is given up
// becomes (absent) from any of these states.
//
// # Concurrency
//
// All functions may be called by several goroutines; a batch belongs to one.
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

// The records of a store. Every append depends on the control record, whose other fields describe
// the index of the store (see package event).
//
//	event.tag/<store>     key "index"   control record, JSON. Its field "inline" has the entries; it is
//	                                    absent if there are none
//	event.inline/<store>  key "bypass"  empty. Written by each append of a store with WithoutInline
//	                      key "set"     the entries in their old form, a JSON array. It is still read;
//	                                    the first change removes it
//
// These forms are persisted and must not change. A control record with entries has format 2, so
// that programs that know only the index refuse it.
const (
	controlPrefix = "event.tag/"
	prefix        = "event.inline/"
)

var (
	// Control is the key of the control record.
	Control = []byte("index")
	// ControlPolicy is the policy of the space of the control record.
	ControlPolicy = mainstem.Policy{NoFeed: true}

	// Old is the key of the entries in their old form.
	Old    = []byte("set")
	bypass = []byte("bypass")
	never  = []byte("never") // a key that is never written; see RefuseTo
	policy = mainstem.Policy{History: 1, NoFeed: true}
)

// The formats of a control record.
const (
	Plain = 1 // describes an index only
	Named = 2 // has inline projections, and may describe an index
)

// State is the state of an inline projection; see the package comment.
type State string

// The states.
const (
	Building State = "building"
	Holding  State = "holding"
	On       State = "on"
	Removing State = "removing"
)

// Entry describes an inline projection of a store.
//
// Invariant: if Next is 0 the other Next fields are zero. Otherwise State is On, Next is greater
// than Build, NextVersion is not less than Version, and NextState is Building, Holding or, if the
// versions are equal, On.
type Entry struct {
	Name    string            `json:"name"`
	Version int               `json:"version"` // of its handlers
	State   State             `json:"state"`
	Since   mainstem.Position `json:"since,omitempty"` // if State is On: appends handle what is after it
	Build   int               `json:"build,omitempty"` // version of the tables that are read; 0 means 1

	// Invariant: if Next is 0 the others are zero, else State is On.
	Next        int               `json:"next,omitempty"`         // version of the tables that are built beside; 0: none
	NextVersion int               `json:"next_version,omitempty"` // of the handlers that build them
	NextState   State             `json:"next_state,omitempty"`   // which tables appends write
	NextSince   mainstem.Position `json:"next_since,omitempty"`   // if NextState is On: Since of the new tables
}

// Both reports whether appends write the tables that are read and those that are built beside.
func (e Entry) Both() bool { return e.Next > 0 && e.NextState == On }

// Held reports whether appends wait for a program with handlers of the returned version to finish
// switching the projection on.
func (e Entry) Held() (version int, held bool) {
	switch {
	case e.State == Holding:
		return e.Version, true
	case e.NextState == Holding:
		return e.NextVersion, true
	}
	return 0, false
}

// Alone returns e without the tables that are built beside.
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

// Set has the inline projections of a store, as of one read.
type Set struct {
	Entries  []Entry          // in the order of their last change
	Revision mainstem.Version // of the control record; 0 if there is none

	fields map[string]json.RawMessage // all fields of the control record, "inline" included
	old    mainstem.Version           // version of the record in the old form; 0 if there is none
}

// Outdated reports whether the store has a set in the old form. [ReplaceTo] with the same entries
// converts it.
func (s Set) Outdated() bool { return s.old > 0 }

// Space returns the name of the space of the bypass record and of the set in its old form.
func Space(store string) string { return prefix + store }

// ControlSpace returns the name of the space of the control record of a store.
func ControlSpace(store string) string { return controlPrefix + store }

// Find returns the entry of the projection called name, or the zero Entry.
func (s Set) Find(name string) Entry {
	for _, e := range s.Entries {
		if e.Name == name {
			return e
		}
	}
	return Entry{}
}

// With returns the entries without the one called e.Name, followed by e. Entries of s are not
// changed.
func (s Set) With(e Entry) []Entry { return append(s.Without(e.Name), e) }

// Without returns the entries without the one called name. The slice is new and has room for one
// more.
func (s Set) Without(name string) []Entry {
	out := make([]Entry, 0, len(s.Entries)+1)
	for _, e := range s.Entries {
		if e.Name != name {
			out = append(out, e)
		}
	}
	return out
}

// Read returns the set of a store. A control record that cannot be decoded is Corrupt.
func Read(ctx context.Context, log mainstem.Log, store string) (Set, error) {
	set, err := read(ctx, log, store)
	if err != nil {
		return Set{}, fmt.Errorf("event store %s: read its inline projections: %w", store, err)
	}
	return set, nil
}

func read(ctx context.Context, log mainstem.Log, store string) (set Set, err error) {
	// The control record is read first. The change that replaces the old form also writes the
	// control record, so a change that was decided on a mix of both conflicts.
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

// ReadOld returns the entries of a store in their old form and the version of their record, or 0 if
// there is none.
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

// decodeControl returns all fields of a control record, and its entries.
func decodeControl(value []byte) (fields map[string]json.RawMessage, entries []Entry, err error) {
	if err := json.Unmarshal(value, &fields); err != nil {
		return nil, nil, err
	}
	if inline := fields[field]; inline != nil {
		entries, err = decode(inline)
	}
	return fields, entries, err
}

// field is the name of the field of the entries.
const field = "inline"

func decode(value []byte) ([]Entry, error) {
	var entries []Entry
	if err := json.Unmarshal(value, &entries); err != nil {
		return nil, err
	}
	return entries, Check(entries)
}

// Check returns an error if entries have states or combinations that this version does not support;
// see the invariant of [Entry].
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

// beside reports whether the Next fields of e satisfy its invariant, if Next is not 0.
func (e Entry) beside() bool {
	return e.State == On && e.Next > e.Build && e.NextVersion >= e.Version &&
		(e.NextState == Building || e.NextState == Holding || e.NextState == On && e.NextVersion == e.Version)
}

// ExpectTo adds to b the condition that the control record of a store has the given version; 0
// means that there is none.
func ExpectTo(b *mainstem.Batch, store string, revision mainstem.Version) {
	if revision == 0 {
		b.IfAbsent(ControlSpace(store), Control)
		return
	}
	b.IfVersion(ControlSpace(store), Control, revision)
}

// ReplaceTo writes entries as the set of a store as part of b, on condition that the control record
// still has the version that [Read] returned in was. The other fields of the record stay. A record
// in the old form is removed.
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

// encode returns a control record with entries and the other fields of was, or nil if it would be
// empty.
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

// BypassTo records, as part of b, that its events are appended without the inline projections.
func BypassTo(b *mainstem.Batch, space string) {
	b.Ensure(space, policy)
	b.Put(space, bypass, nil)
}

// Bypassed returns the position of the newest append that bypassed the inline projections of a
// store, or 0. A projection that is On with Since before that position is stale.
func Bypassed(ctx context.Context, log mainstem.Log, store string) (mainstem.Position, error) {
	rec, err := log.Get(ctx, Space(store), bypass)
	if errors.Is(err, mainstem.ErrNotFound) {
		return 0, nil
	}
	return rec.Position, err
}

// RefuseTo adds a condition to b that never holds. The commit of b tests its batch ID and its other
// conditions, in order, and writes nothing; see [IsRefusal].
func RefuseTo(b *mainstem.Batch, space string) { b.IfExists(space, never) }

// IsOf reports whether e is a conflict with the control record of a store, or with its set in the
// old form. Conditions on queries (TestNotAfter) are not meant.
func IsOf(e *mainstem.Error, store string) bool {
	return e.Space == ControlSpace(store) && bytes.Equal(e.Key, Control) && e.Want.Test != mainstem.TestNotAfter ||
		e.Space == Space(store) && bytes.Equal(e.Key, Old)
}

// IsRefusal reports whether e is the conflict with the condition of RefuseTo, so that all
// conditions before it held.
func IsRefusal(e *mainstem.Error) bool {
	return e.Kind == mainstem.KindConflict && bytes.Equal(e.Key, never) && strings.HasPrefix(e.Space, prefix)
}

// ChangedError reports that the set changed between the building of an append and its commit, and
// that the append may succeed if it is built again. It is a Conflict.
type ChangedError struct {
	Store string
	Cause *mainstem.Error
}

// Error names the store.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("event store %s: its inline projections have changed meanwhile", e.Store)
}

// Unwrap returns the error of the log.
func (e *ChangedError) Unwrap() error { return e.Cause }
