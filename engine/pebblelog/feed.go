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

// feedCursor is one feed under way.
type feedCursor struct {
	view
	filter mainstem.Filter
	after  uint64 // everything up to here has been passed
	left   int    // records until the limit; 0: none
	yield  func(mainstem.Record, error) bool
	over   bool // yield returned false, or the limit is reached

	body   format.Body
	lender format.Lender
	value  []byte // of a large record

	// Used by feeds over several spaces only.
	window  uint64 // positions read at once
	entries []feedEntry
	arena   []byte
}

// feedEntry is an entry read ahead to be merged with those of other spaces.
type feedEntry struct {
	position   uint64
	s          *space
	start, end int // key and body in the arena, as an encoded entry
}

// keepValue is the size up to which a feed that waits keeps memory for large records.
const keepValue = 64 << 10

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
		if cap(c.value) > keepValue { // or each follower would keep the last large value
			c.value, c.body, c.lender = nil, format.Body{}, format.Lender{}
		}
		if err := c.l.sleep(ctx, f, "feed"); err != nil {
			return err
		}
	}
}

// catchUp yields what is committed after c.after and not yet yielded.
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

// spacesAfter returns the spaces of the filter with records after c.after.
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

// single yields the feed of one space straight from its blocks.
func (c *feedCursor) single(ctx context.Context, it *pebble.Iterator, s *space, head uint64) error {
	r := read{view: c.view, op: "feed", s: s, maxAge: c.maxAge(s)}
	return c.blocks(ctx, it, &r, c.after, head, func(pos uint64, key, body []byte) (bool, error) {
		return c.emit(&r, key, body)
	})
}

// blocks calls f for the entries of r's space with after < position <= head.
func (c *feedCursor) blocks(ctx context.Context, it *pebble.Iterator, r *read, after, head uint64, f func(pos uint64, key, body []byte) (bool, error)) error {
	var b1, b2, b3 [16]byte
	lower := format.AppendHead(b1[:0], format.TagFeed, r.s.id)
	upper := format.AppendFeedKey(b2[:0], r.s.id, head+1)
	it.SetBounds(lower, upper)
	start := format.AppendFeedKey(b3[:0], r.s.id, after+1)
	// The block that begins before start may reach beyond it.
	ok := it.SeekLT(start)
	if !ok {
		if err := it.Error(); err != nil {
			return err // the next seek would forget it
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

// entriesOf calls f for the entries of block with after < position <= head. It returns false
// if f did, or if the head is reached.
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

// hot yields the feed of one space from the hot tier; done is false if it has not all of it.
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

// drain has Pebble get what it lacks of spaces.
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

// emit yields one entry; it returns false when the feed is over.
func (c *feedCursor) emit(r *read, key, body []byte) (bool, error) {
	b := &c.body
	if err := b.Decode(body); err != nil {
		return false, err
	}
	c.after = b.Position
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

// fetch fills in a value that stands with its record. The record may be gone by now.
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

// The window of a merge, in positions, grows and shrinks so that one window holds
// about mergeBytes.
const (
	mergeFirst = 1 << 10
	mergeMax   = 1 << 20
	mergeBytes = 1 << 20
)

// merge yields the feeds of several spaces in one order, a window of positions at
// a time: one iterator visits the spaces in turn, so memory and open files do not
// grow with their number.
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
