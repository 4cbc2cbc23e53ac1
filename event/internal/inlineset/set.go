// Package inlineset is the part of a store's metadata that names its inline projections: those
// whose rows are written in the commits of the events. Package event makes every append depend on
// it, package projection changes it.
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

// The set of a store is two records of the space event.inline/<store>:
//
//	key "set"     the entries, JSON; absent if there are none. Every append has a condition on it
//	key "bypass"  empty; written by each append that goes without inline projections
//
// Both are persisted: do not change them.
const prefix = "event.inline/"

var (
	// Key is that of the entries.
	Key    = []byte("set")
	bypass = []byte("bypass")
	never  = []byte("never") // is not written by anybody
	policy = mainstem.Policy{History: 1, NoFeed: true}
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
	Revision mainstem.Version // of the record of the entries; 0 if there is none
}

// Space returns the name of the space that holds the set of a store.
func Space(store string) string { return prefix + store }

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
	rec, err := log.Get(ctx, Space(store), Key)
	if errors.Is(err, mainstem.ErrNotFound) {
		return Set{}, nil
	}
	if err != nil {
		return Set{}, fmt.Errorf("event store %s: read its inline projections: %w", store, err)
	}
	entries, err := decode(rec.Value)
	if err != nil {
		return Set{}, mainstem.Errorf(mainstem.KindCorrupt, "decode", "inline projections: %w", err).At(rec.Space, rec.Key)
	}
	return Set{Entries: entries, Revision: rec.Version}, nil
}

func decode(value []byte) ([]Entry, error) {
	var entries []Entry
	if err := json.Unmarshal(value, &entries); err != nil {
		return nil, err
	}
	for _, e := range entries {
		switch {
		case e.State != Building && e.State != Holding && e.State != On && e.State != Removing:
			return nil, fmt.Errorf("%.60q has the state %.40q, which this version does not know", e.Name, e.State)
		case e.Name == "" || e.Version < 1:
			return nil, fmt.Errorf("the name %.60q with version %d: want a name, and a version from 1", e.Name, e.Version)
		}
	}
	return entries, nil
}

// ExpectTo adds to b the condition that the set is still the one with this revision, 0 for none.
func ExpectTo(b *mainstem.Batch, space string, revision mainstem.Version) {
	if revision == 0 {
		b.IfAbsent(space, Key)
		return
	}
	b.IfVersion(space, Key, revision)
}

// ReplaceTo replaces the set of a store as part of b, on condition that it is still was.
func ReplaceTo(b *mainstem.Batch, store string, was Set, entries []Entry) {
	space := Space(store)
	ExpectTo(b, space, was.Revision)
	b.Ensure(space, policy)
	if len(entries) == 0 {
		b.Delete(space, Key)
		return
	}
	value, err := json.Marshal(entries)
	if err != nil {
		b.Fail(mainstem.Refusef(mainstem.KindInvalid, "inline projections", "%w", err))
		return
	}
	b.Put(space, Key, value)
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
