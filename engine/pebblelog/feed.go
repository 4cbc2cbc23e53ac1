package pebblelog

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// A feed yields records in the order of positions, up to a head. With Follow it then waits and
// continues. Each round (catchUp) has these steps:
//
//	1. Read the head. Everything up to it is in the hot tier or in Pebble, and published.
//	2. Read the registry, and choose the spaces with records above c.after. Spaces that are
//	   created later only have records above the head.
//	3. Read the entries in (c.after, head]. Entries above the head, of groups that are being
//	   shown, stay for the next round. So a feed need not wait for the commit gate.
//	4. Set c.after to the head, beyond entries that the filter excluded as well.
//
// Nothing is lost between rounds. A follower is registered before the first round. A commit
// publishes its position before it signals. So either the next round reads a head that includes
// the commit, or its signal is still to come. The channel keeps one signal for any number of
// commits.
//
// Nothing is yielded twice or out of order: c.after moves with each entry that is yielded or
// excluded, and entries at or below it are skipped.
//
// The feed of one space is read directly from its blocks: from the hot tier if it has all of
// them, otherwise from Pebble. Several spaces are merged (merge).
//
// A removed record is not in the feed: an edit changes the blocks with the records. If a record
// is removed while a round runs, the round may still yield it, from its view. If the value is
// external, the round reads it at that moment and leaves the entry out if it is gone.

// Feed implements [mainstem.Reader].
func (l *Log) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return l.view().feed(ctx, f)
}

func (v view) feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		if err := f.Validate(); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		if v.snap != nil && f.Follow {
			yield(mainstem.Record{}, snapshotFollow("feed"))
			return
		}
		c := feedCursor{view: v, filter: f, after: uint64(f.After), left: f.Limit, yield: yield}
		if err := c.run(ctx); err != nil {
			yield(mainstem.Record{}, mapError("feed", err))
		}
	}
}

// feedCursor is one feed under way. One goroutine uses it.
type feedCursor struct {
	view
	filter mainstem.Filter
	after  uint64 // position up to which the feed has yielded or excluded all; never decreases
	left   int    // records until the limit; without a limit it begins at 0 and counts below 0
	yield  func(mainstem.Record, error) bool
	over   bool // yield returned false, or the limit is reached

	// Memory lent to the loop body, of the hot tier, of the iterator, of value or of the arena.
	// It is valid until the body returns.
	body   format.Body
	lender format.Lender
	value  []byte // of a large record from Pebble: a copy

	// Used by feeds over several spaces only. Invariant: all entries have positions in (after,
	// after+window], for the value of after when they were read.
	window  uint64 // positions read at once; 0 before the first merge
	entries []feedEntry
	arena   []byte // bytes of entries, which refer to it by offset, since it moves when it grows
}

// feedEntry is an entry read ahead to be merged with those of other spaces.
type feedEntry struct {
	position   uint64
	s          *space
	start, end int // offsets in the arena of the key and body, as an encoded entry
}

// keepValue is the size, in bytes, of the buffer for large values that a waiting feed may keep.
const keepValue = 64 << 10

// run catches up and, with Follow, sleeps until one of the spaces may have more. It ends when
// the loop body ends it, the limit is reached, ctx ends, or the log is closed.
func (c *feedCursor) run(ctx context.Context) error {
	var f chan struct{}
	if c.filter.Follow {
		f = make(chan struct{}, 1)
		c.l.followers.Add(f, c.filter.Spaces)
		defer c.l.followers.Remove(f, c.filter.Spaces)
	}
	for {
		if err := c.catchUp(ctx); err != nil || c.over || !c.filter.Follow {
			return err
		}
		if cap(c.value) > keepValue { // a waiting follower must not keep the last large value
			c.value, c.body, c.lender = nil, format.Body{}, format.Lender{}
		}
		if err := c.l.sleep(ctx, f, "feed"); err != nil {
			return err
		}
	}
}

// catchUp yields the records that are committed after c.after. It is one read of the log, so
// Close waits for it, but not for the sleep between two calls.
func (c *feedCursor) catchUp(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return mainstem.Ended(ctx, "feed", time.Time{}, "")
	}
	if !c.readers().begin() {
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: "feed"}
	}
	defer c.readers().end()
	head := c.head()
	if head <= c.after {
		return nil
	}
	spaces := c.spacesAfter()
	if len(spaces) == 1 && c.snap == nil {
		if done, err := c.hot(ctx, spaces[0], head); done || err != nil {
			return err
		}
	}
	if len(spaces) > 0 {
		if err := c.drain(spaces); err != nil {
			return err
		}
		it, err := c.db.NewIter(nil)
		if err != nil {
			return err
		}
		defer it.Close()
		if len(spaces) == 1 {
			err = c.single(ctx, it, spaces[0], head)
		} else {
			err = c.merge(ctx, it, spaces, head)
		}
		if err != nil || c.over {
			return err
		}
	}
	c.after = head
	return nil
}

// spacesAfter returns the spaces of the filter with records after c.after, each once. The field
// last of a space is published before the position, so it includes all records up to the head.
// In a snapshot last may be newer than the snapshot; then the space is read without result.
func (c *feedCursor) spacesAfter() []*space {
	reg := c.l.spaces.Load()
	if c.snap != nil {
		reg = c.snap.spaces
	}
	var out []*space
	add := func(s *space) {
		if s != nil && s.last.Load() > c.after && !s.policy.Load().NoFeed {
			out = append(out, s)
		}
	}
	if c.filter.Spaces == nil {
		for _, name := range reg.names {
			add(reg.byName[name])
		}
		return out
	}
	for i, name := range c.filter.Spaces {
		if !slices.Contains(c.filter.Spaces[:i], name) {
			add(reg.byName[name])
		}
	}
	return out
}

// single yields the feed of one space directly from its blocks in Pebble.
func (c *feedCursor) single(ctx context.Context, it *pebble.Iterator, s *space, head uint64) error {
	r := read{view: c.view, op: "feed", s: s, maxAge: c.maxAge(s)}
	return c.blocks(ctx, it, &r, c.after, head, func(pos uint64, key, body []byte) (bool, error) {
		return c.emit(&r, key, body)
	})
}

// blocks calls f for the entries of the space of r with after < position <= head.
func (c *feedCursor) blocks(ctx context.Context, it *pebble.Iterator, r *read, after, head uint64, f func(pos uint64, key, body []byte) (bool, error)) error {
	var b1, b2, b3 [16]byte
	lower := format.AppendHead(b1[:0], format.TagFeed, r.s.id)
	upper := format.AppendFeedKey(b2[:0], r.s.id, head+1)
	it.SetBounds(lower, upper)
	start := format.AppendFeedKey(b3[:0], r.s.id, after+1)
	// The block that begins before start may reach beyond it. Blocks do not overlap, so earlier
	// ones do not.
	ok := it.SeekLT(start)
	if !ok {
		if err := it.Error(); err != nil {
			return err // the next seek would clear it
		}
		ok = it.SeekGE(start)
	}
	for ; ok; ok = it.Next() {
		if err := r.step(ctx); err != nil {
			return err
		}
		block, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if more, err := c.entriesOf(block, after, head, f); !more || err != nil {
			return err
		}
	}
	return it.Error()
}

// entriesOf calls f for the entries of block with after < position <= head. It returns false if
// f did, or if the head is reached.
func (c *feedCursor) entriesOf(block []byte, after, head uint64, f func(pos uint64, key, body []byte) (bool, error)) (bool, error) {
	for len(block) > 0 {
		key, body, rest, err := format.NextFeedEntry(block)
		if err != nil {
			return false, err
		}
		block = rest
		pos, err := format.PeekPosition(body)
		if err != nil {
			return false, err
		}
		if pos <= after || !bytes.HasPrefix(key, c.filter.KeyPrefix) {
			continue
		}
		if pos > head {
			return false, nil
		}
		if more, err := f(pos, key, body); !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// hot yields the feed of one space from the hot tier. If the tier does not have all of it, hot
// yields nothing and done is false. The tier is asked after the head was read, so its blocks
// reach at least as far, and they do not change while the loop body runs.
func (c *feedCursor) hot(ctx context.Context, s *space, head uint64) (done bool, err error) {
	blocks, ok := c.l.hot.Blocks(s.id, c.after)
	if !ok {
		return false, nil
	}
	r := read{view: c.view, op: "feed", s: s, maxAge: c.maxAge(s)}
	after := c.after
	for i := range blocks.Len() {
		if err := r.step(ctx); err != nil {
			return true, err
		}
		more, err := c.entriesOf(blocks.At(i), after, head, func(pos uint64, key, body []byte) (bool, error) {
			return c.emit(&r, key, body)
		})
		if err != nil || c.over {
			return true, err
		}
		if !more {
			break
		}
	}
	c.after = head
	return true, nil
}

// drain moves pending groups of spaces from the hot tier to Pebble. For a snapshot it does
// nothing: Pebble has everything that a snapshot shows.
func (c *feedCursor) drain(spaces []*space) error {
	for _, s := range spaces {
		if c.snap != nil {
			return nil
		}
		if err := c.l.drainSpace(s); err != nil {
			return err
		}
	}
	return nil
}

// emit yields one entry. It returns false when the feed is over.
func (c *feedCursor) emit(r *read, key, body []byte) (bool, error) {
	b := &c.body
	if err := b.Decode(body); err != nil {
		return false, err
	}
	c.after = b.Position // before the loop body runs, so that a feed that ends there has passed this record
	if !r.visible(b) {
		return true, nil
	}
	if b.External {
		found, err := c.fetch(r, key, b)
		if !found || err != nil {
			return err == nil, err
		}
		r.at.rebase(b)
	}
	c.lender.Record.Space = r.s.name
	c.lender.Fill(key, b)
	if !lend(c.yield, &c.lender.Record) {
		c.over = true
		return false, nil
	}
	c.left--
	c.over = c.left == 0
	return !c.over, nil
}

// fetch fills in an external value from the record. It returns false if the record is gone.
//
// A record is identified by its version and its position together. Another record may be in its
// place by now: the next one in an overwritten slot, or a version marker. A rewrite keeps
// version and position, so the value may be newer than the entry, which is the purpose of a
// rewrite.
func (c *feedCursor) fetch(r *read, key []byte, b *format.Body) (bool, error) {
	if !slots(r.s.policy.Load()) {
		if found, err := c.fetchHot(r, key, b); found || err != nil {
			return found, err
		}
	}
	var stack [128]byte
	var k []byte
	if slots(r.s.policy.Load()) {
		k = format.AppendSlotKey(stack[:0], r.s.id, key)
	} else {
		k = format.AppendVersion(format.AppendPrefix(stack[:0], format.TagVersion, r.s.id, key), b.Version)
	}
	found, err := c.fetchAt(k, b)
	if found || err != nil || !slots(r.s.policy.Load()) {
		return found, err
	}
	k = format.AppendVersion(format.AppendPrefix(stack[:0], format.TagOlder, r.s.id, key), b.Version)
	return c.fetchAt(k, b)
}

// fetchHot is fetch from the hot tier.
func (c *feedCursor) fetchHot(r *read, key []byte, b *format.Body) (bool, error) {
	var stack [128]byte
	records := r.hotRecords(format.AppendPrefix(stack[:0], format.TagVersion, r.s.id, key))
	i, err := searchVersion(&records, b.Version)
	if err != nil || i == records.Len() {
		return false, err
	}
	full, err := format.DecodeBody(records.At(i))
	if err != nil || full.Version != b.Version || full.Position != b.Position {
		return false, err
	}
	*b = full
	return true, nil
}

func (c *feedCursor) fetchAt(k []byte, b *format.Body) (bool, error) {
	val, closer, err := c.db.Get(k)
	if err == pebble.ErrNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer closer.Close()
	full, err := format.DecodeBody(val)
	if err != nil || full.VersionMarker || full.Version != b.Version || full.Position != b.Position {
		return false, err
	}
	c.value = append(c.value[:0], val...)
	*b, err = format.DecodeBody(c.value)
	return err == nil, err
}

// Limits of the window of a merge, in positions. It grows and shrinks so that one window has
// about mergeBytes.
const (
	mergeFirst = 1 << 10
	mergeMax   = 1 << 20
	mergeBytes = 1 << 20
)

// merge yields the feeds of several spaces in one order, one window of positions at a time. One
// iterator visits the spaces in turn, so memory and open files do not grow with their number.
//
// All entries of a window are read, from all spaces, before the first one is yielded, and
// windows follow one another. Positions are unique in the log, so sorting by position is
// sufficient. The iterator moves while a window is read, so entries are copied to the arena. The
// window is doubled or halved so that it has about mergeBytes.
func (c *feedCursor) merge(ctx context.Context, it *pebble.Iterator, spaces []*space, head uint64) error {
	if c.window == 0 {
		c.window = mergeFirst
	}
	for c.after < head {
		end := min(head, c.after+c.window)
		if err := c.readWindow(ctx, it, spaces, end); err != nil {
			return err
		}
		slices.SortFunc(c.entries, func(a, b feedEntry) int {
			if a.position < b.position {
				return -1
			}
			return 1
		})
		at := c.moment()
		for _, e := range c.entries {
			key, body, _, err := format.NextFeedEntry(c.arena[e.start:e.end])
			if err != nil {
				return err
			}
			r := read{view: c.view, op: "feed", s: e.s, at: at, maxAge: c.maxAge(e.s)}
			if more, err := c.emit(&r, key, body); !more || err != nil {
				return err
			}
		}
		c.after = end
		switch {
		case len(c.arena) < mergeBytes/2:
			c.window = min(c.window*2, mergeMax)
		case len(c.arena) > mergeBytes*2:
			c.window = max(c.window/2, 1)
		}
	}
	return nil
}

// readWindow reads the entries of all spaces with c.after < position <= end, in no particular
// order.
func (c *feedCursor) readWindow(ctx context.Context, it *pebble.Iterator, spaces []*space, end uint64) error {
	c.entries, c.arena = c.entries[:0], c.arena[:0]
	for _, s := range spaces {
		if s.last.Load() <= c.after && c.snap == nil {
			continue
		}
		r := read{view: c.view, op: "feed", s: s}
		err := c.blocks(ctx, it, &r, c.after, end, func(pos uint64, key, body []byte) (bool, error) {
			start := len(c.arena)
			c.arena = format.AppendFeedEntry(c.arena, key, body)
			c.entries = append(c.entries, feedEntry{pos, s, start, len(c.arena)})
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
