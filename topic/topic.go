package topic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/follow"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Topic is a handle of one topic. Its methods may be called from many
// goroutines. It stays current while the topic is altered, and gives NotFound
// once the topic was deleted, even if another was created under its name.
type Topic struct {
	c       *Catalog
	name    string
	space   string
	id      ID
	idKey   []byte
	created time.Time
	hub     *follow.Hub[*partitionState, *Waiter]

	appending partition.Options // of its partitions

	current atomic.Pointer[generation]
	gone    atomic.Bool

	// upkept is the newest position of the space that upkeep has seen.
	upkept atomic.Uint64
}

// generation is what may change about a topic. It is immutable.
type generation struct {
	config   Config
	settings settings
	parts    []*partitionState // shared by all generations of a topic
	raw      []byte            // the description as stored
	version  mainstem.Version
	position mainstem.Position
}

// partition is one partition of a topic.
type partitionState struct {
	*partition.Partition
	t   *Topic
	num int32

	start atomic.Int64 // first offset that may be read

	compacting sync.Mutex // held for a whole compaction, taken before mu
	mu         sync.Mutex // held for one bounded step of upkeep
	index      index      // under mu
}

// newTopic makes a handle from the description m, stored in rec.
func newTopic(ctx context.Context, c *Catalog, name string, m meta, rec mainstem.Record) (*Topic, error) {
	t := &Topic{c: c, name: name, space: Space(name), id: m.ID, idKey: idKey(m.ID), created: m.Created}
	t.hub = t.newHub()
	t.appending = partition.Options{Space: t.space, Rules: t.rules, Now: c.o.Now, Memory: c.o.Memory}
	t.current.Store(&generation{})
	if err := t.apply(m, rec); err != nil {
		return nil, err
	}
	return t, t.loadStarts(ctx)
}

// apply makes the description m, stored in rec, the topic's own unless it has a
// newer one or m is another topic's.
func (t *Topic) apply(m meta, rec mainstem.Record) error {
	if m.ID != t.id {
		return nil
	}
	s, err := m.Config.parse()
	if err != nil {
		return &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "topic", Space: t.space, Key: metaKey, Err: err}
	}
	for {
		old := t.current.Load()
		if old.version >= rec.Version {
			return nil
		}
		g := &generation{config: m.Config, settings: s, raw: rec.Value, version: rec.Version, position: rec.Position}
		g.parts = old.parts[:len(old.parts):len(old.parts)]
		for n := int32(len(g.parts)); n < m.Partitions; n++ {
			g.parts = append(g.parts, &partitionState{Partition: partition.New(&t.appending, n), t: t, num: n})
		}
		if t.current.CompareAndSwap(old, g) {
			return nil
		}
	}
}

// manyPartitions is from how many partitions on the index of a topic is scanned for where
// they begin: with a log on another machine, to ask for each takes a minute for 100,000. The
// scan also passes the extents, of which a topic may have more than it has partitions.
const manyPartitions = 256

// loadStarts reads where the partitions begin.
func (t *Topic) loadStarts(ctx context.Context) error {
	parts := t.now().parts
	if len(parts) >= manyPartitions {
		return t.scanStarts(ctx, parts)
	}
	for _, p := range parts {
		rec, err := t.c.log.Get(ctx, IndexSpace, stateKey(t.id, p.num))
		if errors.Is(err, mainstem.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := p.begin(&rec); err != nil {
			return err
		}
	}
	return nil
}

// scanStarts is loadStarts with one scan.
func (t *Topic) scanStarts(ctx context.Context, parts []*partitionState) error {
	size := len(stateKey(t.id, 0))
	for rec, err := range t.c.log.Scan(ctx, IndexSpace, mainstem.Range{Prefix: t.id[:]}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(rec.Key) != size { // an extent
			continue
		}
		n := binary.BigEndian.Uint32(rec.Key[size-4:])
		if int64(n) >= int64(len(parts)) { // added after the description was read
			continue
		}
		if err := parts[n].begin(&rec); err != nil {
			return err
		}
	}
	return nil
}

// begin takes over where the partition begins from its state in the index.
func (p *partitionState) begin(rec *mainstem.Record) error {
	s, err := decodeState(rec.Value)
	if err != nil {
		return corruptIndex(slices.Clone(rec.Key), err)
	}
	p.start.Store(s.start)
	p.Seen(s.start)
	return nil
}

// rules returns which record batches the partitions take.
func (t *Topic) rules() *partition.Rules { return &t.now().settings.Rules }

// now returns the current generation.
func (t *Topic) now() *generation { return t.current.Load() }

// retire makes the handle give NotFound and wakes all that wait.
func (t *Topic) retire() {
	t.gone.Store(true)
	t.hub.Retire()
}

// Name returns the topic's name.
func (t *Topic) Name() string { return t.name }

// ID returns the topic's ID.
func (t *Topic) ID() ID { return t.id }

// Created returns when the topic was created.
func (t *Topic) Created() time.Time { return t.created }

// Partitions returns the number of partitions: they are numbered from 0.
func (t *Topic) Partitions() int32 { return int32(len(t.now().parts)) }

// Config returns a copy of the configurations that were set. Those that were not
// have their defaults; see [Config.Get].
func (t *Topic) Config() Config { return maps.Clone(t.now().config) }

// partition returns the partition called n, if the topic is there and has it.
func (t *Topic) partition(op string, n int32) (*partitionState, error) {
	if err := t.usable(op); err != nil {
		return nil, err
	}
	parts := t.now().parts
	if n < 0 || int(n) >= len(parts) {
		return nil, t.fail(mainstem.KindNotFound, op, fmt.Errorf("no partition %d: the topic has 0 to %d", n, len(parts)-1))
	}
	return parts[n], nil
}

func (t *Topic) usable(op string) error {
	if t.c.closed() {
		return closed(op)
	}
	if t.gone.Load() {
		return notFound(op, t.name)
	}
	return nil
}

// Start returns the first offset of a partition that may be read. A partition
// that has never been trimmed starts at 0.
func (t *Topic) Start(ctx context.Context, partition int32) (int64, error) {
	p, err := t.partition("start", partition)
	if err != nil {
		return 0, err
	}
	rec, err := t.c.log.Get(ctx, IndexSpace, stateKey(t.id, partition))
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return 0, err
	}
	if err == nil {
		s, err := decodeState(rec.Value)
		if err != nil {
			return 0, corruptIndex(rec.Key, err)
		}
		raise(&p.start, s.start)
	}
	return p.start.Load(), nil
}

// End returns the offset that the next record of a partition will get: the high
// watermark, for there is nothing that is written but not yet visible.
func (t *Topic) End(ctx context.Context, partition int32) (int64, error) {
	p, err := t.partition("end", partition)
	if err != nil {
		return 0, err
	}
	return p.readEnd(ctx)
}

// readEnd asks the log where the partition ends.
func (p *partitionState) readEnd(ctx context.Context) (int64, error) {
	r := mainstem.Range{Prefix: p.Key(), KeysOnly: true, Limit: 1}
	for rec, err := range p.t.c.log.Scan(ctx, p.t.space, r) {
		if err != nil {
			return 0, p.t.seen(err)
		}
		p.Seen(int64(rec.Version))
		return p.KnownEnd(), nil
	}
	// Without a record, everything was trimmed: then the partition ends where it starts.
	start, err := p.t.Start(ctx, p.num)
	p.Seen(start)
	return p.KnownEnd(), err
}

// Ends returns the end of every partition by its number, see [Topic.End].
func (t *Topic) Ends(ctx context.Context) ([]int64, error) {
	if err := t.usable("ends"); err != nil {
		return nil, err
	}
	parts := t.now().parts
	ends := make([]int64, len(parts))
	for rec, err := range t.c.log.Scan(ctx, t.space, mainstem.Range{End: partitionsEnd, KeysOnly: true}) {
		if err != nil {
			return nil, t.seen(err)
		}
		if n, ok := partitionOf(rec.Key); ok && int(n) < len(parts) {
			parts[n].Seen(int64(rec.Version))
			ends[n] = parts[n].KnownEnd()
		}
	}
	for n := range ends {
		if ends[n] > 0 {
			continue
		}
		var err error
		if ends[n], err = t.Start(ctx, int32(n)); err != nil { // empty, see readEnd
			return nil, err
		}
	}
	return ends, nil
}

// seen passes on an error of the log. If it says that the topic's space is gone,
// so is the handle.
func (t *Topic) seen(err error) error {
	var e *mainstem.Error
	if errors.As(err, &e) && e.Kind == mainstem.KindNotFound && e.Space == t.space && e.Key == nil {
		t.retire()
		return notFound(e.Op, t.name)
	}
	return err
}

// raise makes a at least v.
func raise(a *atomic.Int64, v int64) {
	for {
		old := a.Load()
		if old >= v || a.CompareAndSwap(old, v) {
			return
		}
	}
}

func corruptIndex(key []byte, err error) error {
	return &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "topic index", Space: IndexSpace, Key: key, Err: err}
}
