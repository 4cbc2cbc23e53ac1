package event

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// Filter selects events of a store. The zero value selects all of them. An event must match all
// fields that are set, and one element each of Types and Streams. The JSON form is stored with the
// checkpoint of a subscription.
type Filter struct {
	Category string   `json:"category,omitempty"` // only streams of this category: names that start with "category-"
	Types    []string `json:"types,omitempty"`    // only events of these types
	Streams  []string `json:"streams,omitempty"`  // only these streams

	// Partitions, if more than 1, divides the streams into that many partitions, at most
	// [MaxPartitions]; Partition, from 0, is the number of the one that is selected. See
	// [PartitionOf].
	Partitions int `json:"partitions,omitempty"`
	Partition  int `json:"partition,omitempty"`

	// Archived includes archived streams. Without it, a feed leaves out the events of a stream that
	// is archived when the feed reads them. Events committed after the feed was opened are always
	// included, because an archived stream gets none.
	Archived bool `json:"archived,omitempty"`
	// Deletions includes the tombstones of [Store.DeleteTo] and [Store.TombstoneTo], as events of
	// type [TypeDeleted] without ID and data, whatever Types contains.
	Deletions bool `json:"deletions,omitempty"`
}

// FeedOptions tune a feed of the events of all streams of a store. Nil and the zero value select
// all events from the first on.
type FeedOptions struct {
	After mainstem.Position // the cursor: only events after this position, exclusive
	Filter

	Limit  int  // at most this many events; 0 means no limit
	Follow bool // then wait for new events
}

// DefaultPage is the number of events that [Store.Page] returns if no limit is set.
const DefaultPage = 1000

// Feed yields events of all streams in the order of their commits. With Follow it continues with
// new events as they are committed, without polling, also in a store that does not exist yet. No
// event is skipped: once a position was seen, nothing new appears below it. To continue later, use
// the Position of the last event as the cursor.
//
// Data is lent until the loop body returns; use [Recorded.Clone] to keep an event. The sequence
// ends after the first error; with Follow it ends with Canceled when ctx ends.
func (s *Store) Feed(ctx context.Context, o *FeedOptions) iter.Seq2[Recorded, error] {
	if o == nil {
		o = &FeedOptions{}
	}
	return func(yield func(Recorded, error) bool) {
		sel, err := o.selector()
		if err == nil {
			err = sel.open(ctx, s, o.After)
		}
		if err != nil {
			yield(Recorded{}, err)
			return
		}
		dec := s.decoders.Get().(*decoder)
		defer s.decoders.Put(dec)
		n := 0
		for rec, err := range s.records(ctx, sel, o.After, o.Follow) {
			ok := false
			if err == nil {
				ok, err = sel.wants(ctx, s, &rec)
			}
			if err != nil {
				yield(Recorded{}, err)
				return
			}
			if !ok {
				continue
			}
			r, err := dec.recorded(&rec, dec.intern(rec.Key))
			if !yield(r, err) || err != nil {
				return
			}
			if n++; n == o.Limit {
				return
			}
		}
	}
}

// Page returns the next events that o selects, at most o.Limit, or [DefaultPage] if that is 0. An
// empty page means that there are no events after the cursor. The events belong to the caller;
// those of one page share memory, like those of [Store.Load].
func (s *Store) Page(ctx context.Context, o *FeedOptions) ([]Recorded, error) {
	var page FeedOptions
	if o != nil {
		page = *o
	}
	if page.Follow {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "feed", "Follow never ends: use Feed")
	}
	if page.Limit == 0 {
		page.Limit = DefaultPage
	}
	sel, err := page.selector()
	if err != nil {
		return nil, err
	}
	p, err := s.page(ctx, sel, page.After, page.Limit, 0)
	if err != nil {
		return nil, err
	}
	return p.events, nil
}

// page is a section of a feed in memory.
type page struct {
	events []Recorded
	next   mainstem.Position // everything up to here was read
	last   bool              // the end of the feed was reached
}

// page reads at most limit events after a position, and stops when they contain maxBytes (0: no
// limit) of data and metadata. If there is an error, the events before it are returned too.
func (s *Store) page(ctx context.Context, sel *selector, after mainstem.Position, limit, maxBytes int) (page, error) {
	if err := sel.open(ctx, s, after); err != nil {
		return page{}, err
	}
	c := s.collector()
	defer s.release(c)
	var events []Recorded
	n, size := 0, 0
	next := after
	for rec, err := range s.records(ctx, sel, after, false) {
		ok := false
		if err == nil {
			ok, err = sel.wants(ctx, s, &rec)
		}
		if err == nil && ok {
			before := c.size()
			err = c.add(&rec)
			n, size = n+1, size+c.size()-before
		}
		if err != nil {
			return page{c.flush(events), next, false}, err
		}
		next = rec.Position
		if c.full() {
			events = c.flush(events)
		}
		if n == limit || maxBytes > 0 && size >= maxBytes {
			return page{c.flush(events), next, false}, nil
		}
	}
	return page{c.flush(events), max(next, sel.head), true}, nil
}

// selector selects the records of a log's feed that belong to a feed of events. It belongs to one
// goroutine.
type selector struct {
	prefix    string
	types     map[string]bool
	streams   map[string]bool
	archived  bool
	deletions bool

	partitions, partition int

	head   mainstem.Position // of the log when the feed was opened
	sealed bool              // there may be archived streams
	seals  map[string]bool   // whether streams are archived, as read since; bounded
}

// maxSealsKnown bounds the size of selector.seals.
const maxSealsKnown = 1 << 16

func (o *FeedOptions) selector() (*selector, error) {
	if o.Limit < 0 {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "feed", "Limit is %d: want 0 (none) or more", o.Limit)
	}
	return o.Filter.selector()
}

func (f *Filter) selector() (*selector, error) {
	if err := checkCategory("feed", f.Category); err != nil {
		return nil, err
	}
	if err := f.checkPartition(); err != nil {
		return nil, err
	}
	sel := &selector{
		archived: f.Archived, deletions: f.Deletions, types: setOf(f.Types), streams: setOf(f.Streams),
		partitions: f.Partitions, partition: f.Partition,
	}
	if f.Category != "" {
		sel.prefix = f.Category + "-"
	}
	if common := commonPrefix(f.Streams); len(common) > len(sel.prefix) && strings.HasPrefix(common, sel.prefix) {
		sel.prefix = common
	}
	return sel, nil
}

func setOf(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

func commonPrefix(names []string) string {
	if len(names) == 0 {
		return ""
	}
	first, last := slices.Min(names), slices.Max(names)
	i := 0
	for i < len(first) && i < len(last) && first[i] == last[i] {
		i++
	}
	return first[:i]
}

// open prepares for a new read of the log's feed.
func (sel *selector) open(ctx context.Context, s *Store, after mainstem.Position) (err error) {
	if sel.head, err = s.log.Head(ctx); err != nil {
		return err
	}
	sel.head = max(sel.head, after)
	sel.sealed, sel.seals = false, nil
	if !sel.archived && after < sel.head {
		sel.sealed, err = s.everSealed(ctx)
	}
	return err
}

func (sel *selector) filter(s *Store, after mainstem.Position, follow bool) mainstem.Filter {
	return mainstem.Filter{Spaces: []string{s.spaces.events}, KeyPrefix: []byte(sel.prefix), After: after, Follow: follow}
}

// wants reports whether the feed includes rec, which matches the filter.
func (sel *selector) wants(ctx context.Context, s *Store, rec *mainstem.Record) (bool, error) {
	if sel.partitions > 1 && partitionOf(rec.Key, sel.partitions) != sel.partition {
		return false, nil
	}
	if sel.streams != nil && !sel.streams[string(rec.Key)] {
		return false, nil
	}
	switch {
	case !rec.Live():
		if !sel.deletions {
			return false, nil
		}
	case sel.types != nil:
		typ, _ := rec.Headers.Get(headerType)
		if !sel.types[string(typ)] {
			return false, nil
		}
	}
	if !sel.sealed || rec.Position > sel.head {
		return true, nil
	}
	archived, known := sel.seals[string(rec.Key)]
	if !known {
		seal, _, err := s.seal(ctx, string(rec.Key))
		if err != nil {
			return false, err
		}
		if sel.seals == nil || len(sel.seals) >= maxSealsKnown {
			sel.seals = map[string]bool{}
		}
		archived = seal == Archived
		sel.seals[string(rec.Key)] = archived
	}
	return !archived, nil
}
