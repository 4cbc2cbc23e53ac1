package topic

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// Options configures [Open]. Zero fields mean the defaults.
type Options struct {
	// Every is how often retention and compaction run in the background. Default
	// [DefaultEvery]; negative means never, until [Catalog.Upkeep] is called.
	Every time.Duration
	// MaxMessage is the largest value in bytes that the log accepts, and so the
	// largest max.message.bytes that a topic may have. Default [mainstem.DefaultMaxValue].
	MaxMessage int
	// CompactionBytes bounds the memory for the keys of the partition that is being
	// compacted: 24 bytes hold one key. Default [DefaultCompactionBytes].
	CompactionBytes int
	// Memory is what decompressing batches takes memory from: to check them, to find times
	// in them, to compact them, and in [Topic.Consume], which keeps it for the batch whose
	// records it yields. What finds none waits 10 s and then fails with Unavailable.
	// Default: [DefaultMemory] for the catalog.
	Memory *budget.Budget
	// Now is the clock for timestamps, retention and compaction. Default [time.Now].
	Now func() time.Time
	// Logger receives what retention and compaction could not do. Default: discards.
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

// Validate reports every field out of range.
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

// Catalog is the set of topics of a log. Its methods may be called from many
// goroutines. Close it before the log.
type Catalog struct {
	log     mainstem.Log
	o       Options
	extents extentLimits

	// consumers is for the batches that Consume has open. A loop body may append while it
	// holds some of it, and wait for o.Memory. What holds some of o.Memory never waits for
	// consumers, so there is no deadlock.
	consumers *budget.Budget

	ctx  context.Context // ends at Close
	stop context.CancelFunc
	wg   sync.WaitGroup // the upkeep loop and the followers

	// glancing is held while a batch is decompressed for which memory is not waited for.
	glancing sync.Mutex

	// admin serialises what creates, changes and deletes topics. It is taken before mu.
	admin sync.Mutex

	mu struct {
		sync.Mutex
		topics map[string]*Topic
		closed bool
		swept  bool // leftovers of topics that are gone were removed
	}
}

// Open returns the topics of log and begins to look after them in the
// background. It writes nothing. The log stays the caller's: close it after the
// catalog.
//
// Several catalogs may be open on one log, also in several processes; each sees
// what the others do. It is enough that one of them has upkeep on.
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

// Close stops upkeep, ends everything that waits with Closed, and waits for the
// goroutines that the catalog owns. Producers have to be closed first. The log
// stays open. Closing twice is allowed.
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

// Log returns the log that the topics are in.
func (c *Catalog) Log() mainstem.Log { return c.log }

// Topic returns the topic called name as it is now: NotFound if there is none.
// The handle is shared and stays current; it is cheap to ask for it again.
func (c *Catalog) Topic(ctx context.Context, name string) (*Topic, error) {
	const op = "topic"
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	if c.closed() {
		return nil, closed(op)
	}
	held := c.cached(name) // before the log is asked: a later one is not for us to forget
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

// adopt returns the handle of the topic whose description is rec, making or
// refreshing it if need be.
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

// install puts t under its name, unless the handle there is of the same topic or
// of a later one. It returns the handle now there and the one that gave way.
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

// forget drops the handle, if there is one, of a topic that does not exist any more.
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

// ByID returns the topic with the given ID: NotFound if there is none.
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

// All yields the topics in the order of their names.
func (c *Catalog) All(ctx context.Context) iter.Seq2[*Topic, error] {
	return func(yield func(*Topic, error) bool) {
		for t, err := range c.survey(ctx) {
			if !yield(t.Topic, err) || err != nil {
				return
			}
		}
	}
}

// surveyed is a topic and where its space ended when the catalog looked.
type surveyed struct {
	*Topic
	last mainstem.Position
}

// survey yields the topics and the newest positions of their spaces. It goes on
// after the error of one topic.
func (c *Catalog) survey(ctx context.Context) iter.Seq2[surveyed, error] {
	return func(yield func(surveyed, error) bool) {
		var found []mainstem.SpaceInfo // collected first: the loop bodies read and write
		for info, err := range c.log.Spaces(ctx, SpacePrefix) {
			if err != nil {
				yield(surveyed{}, err)
				return
			}
			found = append(found, info)
		}
		for _, info := range found {
			t, err := c.Topic(ctx, strings.TrimPrefix(info.Name, SpacePrefix))
			switch {
			case errors.Is(err, mainstem.ErrNotFound), errors.Is(err, mainstem.ErrInvalid):
				continue // deleted meanwhile, or a space that is no topic
			}
			if !yield(surveyed{t, info.Last}, err) {
				return
			}
		}
	}
}
