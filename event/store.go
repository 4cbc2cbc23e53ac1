package event

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/internal/inlineset"
)

// The prefixes of the spaces that a store uses; the store's name follows.
const (
	eventsPrefix      = "event/"            // stream: its events, all of them
	sealsPrefix       = "event.seal/"       // stream: why it accepts no events
	settingsPrefix    = "event.settings/"   // stream: its Settings
	snapshotsPrefix   = "event.snapshot/"   // stream: its newest snapshots
	checkpointsPrefix = "event.checkpoint/" // subscription: its position
	parkedPrefix      = "event.parked/"     // subscription and position: an event it could not handle
)

// Options configure a [Store]. Nil and zero fields mean the defaults. Open copies them.
type Options struct {
	// MaxEventBytes bounds the data of one event, in bytes. Default 0: the log's own limit of a
	// value, see [mainstem.Limits].
	MaxEventBytes int
	// KeepSnapshots is how many snapshots of a stream are kept. Default 1; at most
	// [mainstem.MaxHistory]. It is fixed when the first snapshot of the store is written.
	KeepSnapshots int
	// Durability is that of [Store.Append] and the other calls that commit by themselves. Default:
	// the log's.
	Durability mainstem.Durability
	// NewID returns the IDs of events that have none. Default [NewID].
	NewID func() ID
	// WithoutInline allows this program to append to a store with inline projections without
	// running them, for repairs when the program that has them is not available. Each such append
	// marks them as stale, which their Status reports, until they are rebuilt.
	WithoutInline bool
	// Tagger returns tags that are added to those of an event when it is appended. It must not
	// change the event, and must return the same tags for an event that is appended again.
	Tagger func(Event) []string
	// Retries bounds how often [Store.Commit] and [Store.Decide] try again. Default
	// [DefaultRetries]; negative: never.
	Retries int
}

// Validate reports every field out of range.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(o.MaxEventBytes >= 0, "MaxEventBytes is %d: want 0 (the log's limit) or more", o.MaxEventBytes)
	check(o.KeepSnapshots >= 0 && o.KeepSnapshots <= mainstem.MaxHistory, "KeepSnapshots is %d: want 0 (default 1) to %d", o.KeepSnapshots, mainstem.MaxHistory)
	check(o.Durability >= mainstem.OS, "Durability %d is not one that this version knows", int64(o.Durability))
	if len(wrong) == 0 {
		return nil
	}
	return mainstem.Refusef(mainstem.KindInvalid, "open event store", "options: %w", errors.Join(wrong...))
}

// Store is a handle on the event streams of one name in a log. It owns no files and no goroutines,
// and needs no Close. It caches the index of the store as it last read it. All methods are safe for
// concurrent use, and several handles may be open for one name.
type Store struct {
	log    mainstem.Log
	name   string
	opts   Options
	spaces struct{ events, seals, settings, snapshots, checkpoints, parked, tags, inline string }

	index atomic.Pointer[index] // as last read by this handle; nil: not yet read

	snapshotPolicy mainstem.Policy

	writers    sync.Pool // *writer
	collectors sync.Pool // *collector
	decoders   sync.Pool // *decoder
}

// Open returns the store called name in log. It reads and creates nothing: the
// first append creates the space event/<name>.
func Open(log mainstem.Log, name string, opts *Options) (*Store, error) {
	if log == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "open event store", "store %q: the log is nil", name)
	}
	if name == "" {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "open event store", "the store has no name")
	}
	if err := mainstem.ValidateSpaceName(checkpointsPrefix + name); err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "open event store", "store %.40q: %w", name, err)
	}
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := &Store{log: log, name: name}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Retries == 0 {
		s.opts.Retries = DefaultRetries
	}
	if s.opts.KeepSnapshots == 0 {
		s.opts.KeepSnapshots = 1
	}
	s.snapshotPolicy = mainstem.Policy{History: s.opts.KeepSnapshots, NoFeed: true}
	s.spaces.events = eventsPrefix + name
	s.spaces.seals = sealsPrefix + name
	s.spaces.settings = settingsPrefix + name
	s.spaces.snapshots = snapshotsPrefix + name
	s.spaces.checkpoints = checkpointsPrefix + name
	s.spaces.parked = parkedPrefix + name
	s.spaces.tags = tagsPrefix + name
	s.spaces.inline = inlineset.Space(name)
	s.writers.New = func() any { return new(writer) }
	s.collectors.New = func() any { return new(collector) }
	s.decoders.New = func() any { return new(decoder) }
	return s, nil
}

// Name returns the name that the store was opened with.
func (s *Store) Name() string { return s.name }

// Log returns the log of the store.
func (s *Store) Log() mainstem.Log { return s.log }

// Durability returns [Options.Durability].
func (s *Store) Durability() mainstem.Durability { return s.opts.Durability }

// Space returns the name of the space that holds the events. Its keys are the names of the streams,
// its records the events.
func (s *Store) Space() string { return s.spaces.events }

// Drop removes the store with all its events, snapshots, settings and checkpoints. The spaces are
// dropped one after the other, the events last: calling Drop again completes a Drop that failed.
// Dropping a store that does not exist is no error.
func (s *Store) Drop(ctx context.Context) error {
	for _, space := range []string{
		s.spaces.parked, s.spaces.checkpoints, s.spaces.snapshots, s.spaces.settings, s.spaces.seals, s.spaces.tags, s.spaces.inline, s.spaces.events,
	} {
		if err := s.log.DropSpace(ctx, space); err != nil && !isNotFound(err) {
			return err
		}
	}
	return nil
}

// Stores yields the names of the event stores that log holds, in order.
func Stores(ctx context.Context, log mainstem.Log) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for info, err := range log.Spaces(ctx, eventsPrefix) {
			if !yield(strings.TrimPrefix(info.Name, eventsPrefix), err) || err != nil {
				return
			}
		}
	}
}
