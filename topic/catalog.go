package topic

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// Options configures [Open]. Zero fields mean the defaults.
type Options struct {
	// Every is how often upkeep (retention, compaction, leftovers of deleted topics) runs in the
	// background. Default [DefaultEvery]; negative means only when [Catalog.Upkeep] is called.
	Every time.Duration
	// MaxMessage is the largest value, in bytes, that the log accepts, and so the largest
	// max.message.bytes that a topic may have. Default [mainstem.DefaultMaxValue].
	MaxMessage int
	// CompactionBytes bounds the bytes for the keys of a partition while it is compacted. A key
	// takes 32 bytes, whatever its length. Only a single batch with more keys than fit exceeds it.
	// Default [DefaultCompactionBytes], at least [MinCompactionBytes].
	CompactionBytes int
	// Memory is the budget from which the bytes of decompressed batches are reserved: to check
	// appended batches, to look up times, to compact, and in [Topic.Consume], which keeps the
	// reservation of a batch while it yields its records. A call that gets no reservation within
	// 10 s fails with Unavailable. Default: a budget of [DefaultMemory] bytes for this catalog.
	Memory *budget.Budget
	// Now is the clock for timestamps, retention and compaction. Default [time.Now].
	Now func() time.Time
	// Logger receives the errors of retention and compaction in the background. Default: they are
	// discarded.
	Logger *slog.Logger
}

// The defaults and limits.
const (
	DefaultEvery           = 30 * time.Second
	DefaultCompactionBytes = 64 << 20
	MinCompactionBytes     = 64 << 10
	DefaultMemory          = 512 << 20 // bytes of decompressed batches
	MaxPartitions          = 100_000   // partitions of one topic
)

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Every == 0 {
		c.Every = DefaultEvery
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = mainstem.DefaultMaxValue
	}
	if c.CompactionBytes == 0 {
		c.CompactionBytes = DefaultCompactionBytes
	}
	if c.Memory == nil {
		c.Memory = budget.New("decompression", DefaultMemory)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate returns an Invalid error that lists every field out of range.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	if o.MaxMessage < 0 {
		errs = append(errs, fmt.Errorf("MaxMessage is %d: want 0 (default) or more", o.MaxMessage))
	}
	if o.CompactionBytes != 0 && o.CompactionBytes < MinCompactionBytes {
		errs = append(errs, fmt.Errorf("CompactionBytes is %d: want 0 (default) or at least %d", o.CompactionBytes, MinCompactionBytes))
	}
	if len(errs) == 0 {
		return nil
	}
	return mainstem.Refusef(mainstem.KindInvalid, "open topics", "%w", errors.Join(errs...))
}

// Catalog is the set of topics of a log. Its methods may be called from many goroutines. Close it
// before the log.
//
// Lock order: admin, then mu. No lock of the catalog but admin is held while the log is used.
type Catalog struct {
	log     mainstem.Log // of the caller
	o       Options      // with the defaults
	extents extentLimits // changed by tests only, before the first topic

	// consumers is the child of o.Memory for batches that Consume has open. The body of a loop over
	// Consume may append, and then waits for o.Memory while it holds a reservation of consumers. A
	// goroutine that holds one of o.Memory itself never waits for consumers. So there is no
	// deadlock.
	consumers *budget.Budget

	ctx  context.Context // ends at Close
	stop context.CancelFunc
	wg   sync.WaitGroup // the upkeep loop and the followers

	// glancing is held while newestFrom has a batch decompressed, whose memory it takes without
	// waiting.
	glancing sync.Mutex

	// admin serializes Create, Delete and changes of descriptions by this catalog.
	admin sync.Mutex

	mu struct {
		sync.Mutex
		topics map[string]*Topic // handles by name; may miss topics, and have some that were deleted
		closed bool              // set before ctx ends; then topics is empty
		swept  bool              // upkeep has removed the index of deleted topics, or does so now
	}
}

// Open returns the topics of log and starts upkeep in the background unless o says otherwise. It
// writes nothing itself. nil options mean the defaults; options out of range are Invalid. The log
// belongs to the caller, who closes it after the catalog.
//
// Several catalogs may be open on one log, in several processes too; each sees the changes of the
// others. It is enough that one of them runs upkeep.
func Open(log mainstem.Log, o *Options) (*Catalog, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := &Catalog{log: log, o: o.withDefaults(), extents: defaultExtentLimits}
	c.consumers = c.o.Memory.Child("consumers", 0)
	c.mu.topics = map[string]*Topic{}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if c.o.Every > 0 {
		c.wg.Go(c.upkeepLoop)
	}
	return c, nil
}

// Close stops upkeep, ends every wait with Closed, and waits for the goroutines that the catalog
// owns. Close producers first. The log stays open. Closing twice is allowed.
func (c *Catalog) Close() error {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.topics = map[string]*Topic{}
	c.mu.Unlock()
	c.stop()
	c.wg.Wait()
	return nil
}

func (c *Catalog) closed() bool { return c.ctx.Err() != nil }

// Log returns the log that has the topics.
func (c *Catalog) Log() mainstem.Log { return c.log }

// Topic returns the handle of a topic. It reads the topic's description from the log: NotFound if
// there is none, Invalid for a name that no topic may have, Corrupt for a description that cannot
// be decoded. All callers share the handle. To ask for it again costs one read of a record.
func (c *Catalog) Topic(ctx context.Context, name string) (*Topic, error) {
	const op = "topic"
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	if c.closed() {
		return nil, closed(op)
	}
	held := c.cached(name) // read first: a handle that comes later is of a later topic, and stays
	rec, err := c.log.Get(ctx, Space(name), metaKey)
	if errors.Is(err, mainstem.ErrNotFound) {
		c.forget(held)
		return nil, notFound(op, name)
	}
	if err != nil {
		return nil, err
	}
	return c.adopt(ctx, name, rec)
}

// adopt returns the handle of the topic with the description rec. It creates the handle, or applies
// rec to the one that is there.
func (c *Catalog) adopt(ctx context.Context, name string, rec mainstem.Record) (*Topic, error) {
	if t := c.cached(name); t != nil && t.now().position == rec.Position {
		return t, nil
	}
	m, err := decodeMeta(rec.Value)
	if err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "topic", Space: Space(name), Key: metaKey, Err: err}
	}
	t, err := newTopic(ctx, c, name, m, rec)
	if err != nil {
		return nil, err
	}
	held, old, err := c.install(t)
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.retire()
	}
	return held, held.apply(m, rec)
}

// install puts t into the map unless the handle there is of the same topic or of a later one. It
// returns the handle that is now there, and the one that t has replaced, which the caller retires.
func (c *Catalog) install(t *Topic) (held, old *Topic, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, nil, closed("topic")
	}
	old = c.mu.topics[t.name]
	if old != nil && (old.id == t.id || old.now().position > t.now().position) {
		return old, nil, nil
	}
	c.mu.topics[t.name] = t
	return t, old, nil
}

func (c *Catalog) cached(name string) *Topic {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.topics[name]
}

func (c *Catalog) cachedNames() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.mu.topics))
}

// forget removes t, the handle of a topic that does not exist any more, from the map and retires
// it. t may be nil.
func (c *Catalog) forget(t *Topic) {
	if t == nil {
		return
	}
	c.mu.Lock()
	if c.mu.topics[t.name] == t {
		delete(c.mu.topics, t.name)
	}
	c.mu.Unlock()
	t.retire()
}

// ByID returns the topic with an ID: NotFound if there is none. If this catalog has no handle of
// it, ByID reads the descriptions of all topics.
func (c *Catalog) ByID(ctx context.Context, id ID) (*Topic, error) {
	if t := c.cachedID(id); t != nil {
		if now, err := c.Topic(ctx, t.name); err != nil || now.id == id {
			return now, err
		}
	}
	for t, err := range c.All(ctx) {
		if err != nil {
			return nil, err
		}
		if t.id == id {
			return t, nil
		}
	}
	return nil, mainstem.Errorf(mainstem.KindNotFound, "topic by id", "no topic has the ID %v", id)
}

func (c *Catalog) cachedID(id ID) *Topic {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.mu.topics {
		if t.id == id {
			return t
		}
	}
	return nil
}

// All yields the topics in the order of their names. An error ends the sequence.
func (c *Catalog) All(ctx context.Context) iter.Seq2[*Topic, error] {
	return func(yield func(*Topic, error) bool) {
		for t, err := range c.survey(ctx) {
			if !yield(t.Topic, err) || err != nil {
				return
			}
		}
	}
}

// surveyed is a topic with the position of the newest record of its space, read before the topic.
type surveyed struct {
	*Topic
	last mainstem.Position
}

// survey yields all topics. It goes on after an error of one topic; an error of the listing ends
// it. At the end it retires the handles of topics that another process has deleted.
func (c *Catalog) survey(ctx context.Context) iter.Seq2[surveyed, error] {
	return func(yield func(surveyed, error) bool) {
		var found []mainstem.SpaceInfo // collected first, since loop bodies read and write
		listed := map[string]bool{}    // the names of the topics in found
		for info, err := range c.log.Spaces(ctx, SpacePrefix) {
			if err != nil {
				yield(surveyed{}, err)
				return
			}
			found = append(found, info)
			listed[strings.TrimPrefix(info.Name, SpacePrefix)] = true
		}
		for _, info := range found {
			t, err := c.Topic(ctx, strings.TrimPrefix(info.Name, SpacePrefix))
			switch {
			case errors.Is(err, mainstem.ErrNotFound), errors.Is(err, mainstem.ErrInvalid):
				continue // deleted meanwhile, or not the space of a topic
			}
			if !yield(surveyed{t, info.Last}, err) {
				return
			}
		}
		for _, name := range c.cachedNames() {
			if listed[name] {
				continue
			}
			_, err := c.Topic(ctx, name) // retires the handle, unless the topic was created meanwhile
			if err != nil && !errors.Is(err, mainstem.ErrNotFound) && !yield(surveyed{}, err) {
				return
			}
		}
	}
}
