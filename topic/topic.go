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

// Topic is a handle of one topic. Its methods may be called from many goroutines. The catalog
// shares one handle among all callers and keeps it current while the topic is altered.
//
// Once the handle has learned that the topic was deleted, its methods fail with NotFound, even if
// another topic was created under the name. It learns of a deletion by its own catalog at once. It
// learns of one by another catalog from a waiter's follower, from upkeep, from [Catalog.Topic], or
// from an error of the log. DeleteRecords, compaction and stored offsets are safe before that, too:
// their commits have the condition that the ID of the topic exists.
type Topic struct {
	c     *Catalog
	name  string
	space string
	id    ID
	// idKey exists in the topic's space as long as this topic does: a condition of commits that
	// must not touch a later topic of the same name.
	idKey   []byte
	created time.Time
	hub     *follow.Hub[*partitionState, *Waiter] // wakes the waiters of all partitions

	appending partition.Options // shared by all partitions

	current atomic.Pointer[generation] // replaced by newer ones only, see apply
	gone    atomic.Bool                // the topic was deleted; never reset

	// upkept is the position of the newest record of the topic's space when the last upkeep without
	// an error began. While it does not change, upkeep does not look for new batches.
	upkept atomic.Uint64
}

// generation is the state of a topic that altering it replaces. It is immutable.
type generation struct {
	config   Config            // as set
	settings settings          // config with the defaults, parsed
	parts    []*partitionState // by number; a partition is the same one in all generations
	raw      []byte            // the description as stored
	version  mainstem.Version  // of the record of the description
	position mainstem.Position // of the same record
}

// partitionState is one partition of a topic, with its index. The embedded Partition appends.
//
// Lock order: compacting, then mu. Both are held while the log is read and written.
type partitionState struct {
	*partition.Partition
	t   *Topic
	num int32

	start atomic.Int64 // first offset that may be read, as far as this process knows; never decreases

	compacting sync.Mutex // held for a whole compaction
	mu         sync.Mutex // held for one bounded step of upkeep
	index      index      // under mu
}

// newTopic returns a handle of the topic with the description m, which is stored in rec. It reads
// where the partitions start.
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

// apply makes m, stored in rec, the description of the handle. It does nothing if the handle has
// the same or a newer one, or if m is the description of another topic.
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

// manyPartitions is the number of partitions from which loadStarts scans the index of the topic in
// place of getting the state of each partition: with a log on another machine, 100,000 calls take a
// minute. The scan also reads the extents, of which a topic may have more than it has partitions.
const manyPartitions = 256

// loadStarts reads where each partition starts.
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

// scanStarts is loadStarts with one scan of the topic's index.
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

// begin sets the start of the partition from rec, its state in the index. The handle is not shared
// yet.
func (p *partitionState) begin(rec *mainstem.Record) error {
	s, err := decodeState(rec.Value)
	if err != nil {
		return corruptIndex(slices.Clone(rec.Key), err)
	}
	p.start.Store(s.start)
	p.Seen(s.start)
	return nil
}

// rules returns the rules for record batches in the current generation.
func (t *Topic) rules() *partition.Rules { return &t.now().settings.Rules }

// now returns the current generation.
func (t *Topic) now() *generation { return t.current.Load() }

// retire makes the methods of the handle fail with NotFound and wakes all waiters.
func (t *Topic) retire() {
	t.gone.Store(true)
	t.hub.Retire()
}

// Name returns the topic's name.
func (t *Topic) Name() string { return t.name }

// ID returns the topic's ID, which no other topic has.
func (t *Topic) ID() ID { return t.id }

// Created returns when the topic was created, by the clock of the catalog that created it.
func (t *Topic) Created() time.Time { return t.created }

// Partitions returns the number of partitions. They are numbered from 0.
func (t *Topic) Partitions() int32 { return int32(len(t.now().parts)) }

// Config returns a copy of the configurations that were set. The others have their defaults; see
// [Config.Get].
func (t *Topic) Config() Config { return maps.Clone(t.now().config) }

// partition returns partition n. It fails with Closed, or with NotFound if the topic or the
// partition does not exist.
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

// usable returns Closed if the catalog is closed, NotFound if the topic was deleted, else nil.
func (t *Topic) usable(op string) error {
	if t.c.closed() {
		return closed(op)
	}
	if t.gone.Load() {
		return notFound(op, t.name)
	}
	return nil
}

// Start returns the first offset of a partition that may be read, as stored in the log. It is 0
// until retention or DeleteRecords removes records.
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

// KnownStart is Start without a read: the start when it was last read or moved by
// this process, which may be too low if another has moved it. It is -1 for a partition that the
// topic does not have.
func (t *Topic) KnownStart(partition int32) int64 {
	parts := t.now().parts
	if partition < 0 || int(partition) >= len(parts) {
		return -1
	}
	return parts[partition].start.Load()
}

// End returns the offset that the next record of a partition will get, as stored in the log. It is
// the high watermark: every committed record may be read. It may be above the last stable offset,
// which a server of Kafka's protocol tracks.
func (t *Topic) End(ctx context.Context, partition int32) (int64, error) {
	p, err := t.partition("end", partition)
	if err != nil {
		return 0, err
	}
	return p.readEnd(ctx)
}

// readEnd returns the end of the partition from the version of its newest record.
func (p *partitionState) readEnd(ctx context.Context) (int64, error) {
	r := mainstem.Range{Prefix: p.Key(), KeysOnly: true, Limit: 1}
	for rec, err := range p.t.c.log.Scan(ctx, p.t.space, r) {
		if err != nil {
			return 0, p.t.seen(err)
		}
		p.Seen(int64(rec.Version))
		return p.KnownEnd(), nil
	}
	// Without a record, nothing was written or all was trimmed: the partition ends where it starts.
	start, err := p.t.Start(ctx, p.num)
	p.Seen(start)
	return p.KnownEnd(), err
}

// Ends returns the ends of all partitions, by number, with one scan; see [Topic.End].
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

// seen returns the error to report for err, an error of the log. If err says that the topic's space
// does not exist, seen retires the handle and returns NotFound for the topic.
func (t *Topic) seen(err error) error {
	var e *mainstem.Error
	if errors.As(err, &e) && e.Kind == mainstem.KindNotFound && e.Space == t.space && e.Key == nil {
		t.retire()
		return notFound(e.Op, t.name)
	}
	return err
}

// raise sets a to v if that is more.
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
