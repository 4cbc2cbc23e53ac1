package pebblelog

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// Check implements [mainstem.Checker]. It reads every block of every file, whose checksums
// Pebble verifies, decodes every key and value, and compares keys that depend on each other:
// records with the feed, both with the totals of their space, and versions with each other. It
// works on a snapshot while commits go on. Close ends it, with an error of kind Closed, so report
// must not call Close.
func (l *Log) Check(ctx context.Context, report func(mainstem.Problem)) (mainstem.CheckStats, error) {
	if err := l.sound("check"); err != nil {
		return mainstem.CheckStats{}, err // a commit with an unknown outcome looks like damage
	}
	snap, err := l.Snapshot(ctx)
	if err != nil {
		return mainstem.CheckStats{}, err
	}
	defer snap.Close()
	c := check{ctx: ctx, s: snap.(*Snapshot), report: report}
	if !c.s.readers.begin() { // Close waits for the end of the check from here on
		return c.stats, &mainstem.Error{Kind: mainstem.KindClosed, Op: "check"}
	}
	defer c.s.readers.end()
	if err := l.db.CheckLevels(nil); err != nil {
		report(mainstem.Problem{Where: "sorted files", What: err.Error()})
	}
	if err := c.journal(); err != nil {
		return c.stats, err
	}
	if err := c.spaces(); err != nil {
		return c.stats, mapError("check", err)
	}
	return c.stats, nil
}

// journal reads all frames, whose checksums cover all of their bytes.
func (c *check) journal() error {
	j := c.s.l.journal
	if j == nil {
		return nil
	}
	for _, err := range j.Read(j.Stats().First + 1) {
		if err := c.interrupted(); err != nil {
			return err
		}
		if err != nil && mainstem.KindOf(err) != mainstem.KindNotFound { // the frame was freed meanwhile
			c.problem("journal", "%v", err)
		}
	}
	return nil
}

// check is one Check, on a snapshot.
type check struct {
	ctx    context.Context
	s      *Snapshot
	report func(mainstem.Problem)
	stats  mainstem.CheckStats
}

// seen accumulates the records of a space. keys is counted here only if the space keeps all
// history, where the versions of a key are adjacent; for other spaces see countKeys.
type seen struct {
	records, keys, bytes int64
	last                 uint64 // highest position
	fed                  int64  // number of feed entries
	key                  string // user's key of the last record
	version              uint64 // version of the last record
}

func (c *check) problem(where, format string, args ...any) {
	c.report(mainstem.Problem{Where: where, What: fmt.Sprintf(format, args...)})
}

// interrupted returns an error if the context has ended or the log is being closed.
func (c *check) interrupted() error {
	if c.ctx.Err() != nil {
		return mainstem.Ended(c.ctx, "check", time.Time{}, "")
	}
	if c.s.readers.closed.Load() {
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: "check"}
	}
	return nil
}

func (c *check) spaces() error {
	for _, name := range c.s.spaces.names {
		if err := c.interrupted(); err != nil {
			return err
		}
		if err := c.space(c.s.spaces.byName[name]); err != nil {
			return err
		}
		c.stats.Spaces++
	}
	for _, tag := range []byte{format.TagExpiry, format.TagReceipt, format.TagIDOrder, format.TagClock} {
		if err := c.walk([]byte{tag}, c.index); err != nil {
			return err
		}
	}
	return nil
}

// space checks the records of a space, its feed and its totals.
func (c *check) space(s *space) error {
	p := s.policy.Load()
	var sum seen
	tags := []byte{format.TagVersion}
	if slots(p) {
		tags = []byte{format.TagOlder, format.TagSlot}
	}
	for _, tag := range tags {
		err := c.walk(format.AppendHead(nil, tag, s.id), func(k, v []byte) error {
			c.record(s, &sum, k, v)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if slots(p) {
		keys, err := c.countKeys(s)
		if err != nil {
			return err
		}
		sum.keys = keys
	}
	if !p.NoFeed {
		err := c.walk(format.AppendHead(nil, format.TagFeed, s.id), func(k, v []byte) error {
			return c.block(s, &sum, k, v)
		})
		if err != nil {
			return err
		}
		// Every entry has a record, and positions ascend, so equal numbers mean that every
		// record has an entry.
		if sum.fed != sum.records {
			c.problem("space "+s.name, "the feed has %d entries for %d records", sum.fed, sum.records)
		}
	}
	c.totals(s, &sum)
	c.stats.Keys += sum.keys
	c.stats.Records += sum.records
	c.stats.Bytes += sum.bytes
	return nil
}

// record checks one record and adds it to sum.
func (c *check) record(s *space, sum *seen, k, v []byte) {
	where := func() string { return fmt.Sprintf("space %s, key %s", s.name, hex.EncodeToString(k)) }
	key, err := userKey(k)
	if err != nil {
		c.problem(where(), "malformed key")
		return
	}
	b, err := format.DecodeBody(v)
	if err != nil {
		c.problem(where(), "malformed record")
		return
	}
	where = func() string { return fmt.Sprintf("space %s, key %.64q, version %d", s.name, key, b.Version) }
	if k[0] != format.TagSlot {
		if _, version, _ := format.SplitVersioned(k); version != b.Version {
			c.problem(where(), "stored under version %d", version)
		}
		if string(key) == sum.key && b.Version-uint64(b.Count) < sum.version && !b.VersionMarker {
			c.problem(where(), "overlaps the record before it, which ends at version %d", sum.version)
		}
	}
	if b.Version < uint64(b.Count) {
		c.problem(where(), "carries %d items", b.Count)
	}
	if b.VersionMarker {
		return
	}
	if b.Position == 0 || b.Position > c.s.position {
		c.problem(where(), "has position %d, the log ends at %d", b.Position, c.s.position)
	}
	if k[0] == format.TagVersion && string(key) != sum.key {
		sum.keys++
	}
	sum.key, sum.version = string(key), b.Version
	sum.records++
	sum.bytes += b.Size() + int64(len(key))
	sum.last = max(sum.last, b.Position)
}

// countKeys counts the keys of a space with bounded history that hold a record.
func (c *check) countKeys(s *space) (n int64, err error) {
	it, err := c.s.db.NewIter(nil)
	if err != nil {
		return 0, err
	}
	defer it.Close()
	err = c.walk(format.AppendHead(nil, format.TagSlot, s.id), func(k, v []byte) error {
		b, err := format.DecodeBody(v)
		if err == nil && !b.VersionMarker {
			n++
			return nil
		}
		key, err := userKey(k)
		if err != nil {
			return nil // already reported
		}
		prefix := format.AppendPrefix(nil, format.TagOlder, s.id, key)
		it.SetBounds(prefix, format.AppendPrefixEnd(nil, prefix))
		if it.First() {
			n++
		}
		return it.Error()
	})
	return n, err
}

// block checks one feed block against the records.
func (c *check) block(s *space, sum *seen, k, v []byte) error {
	where := fmt.Sprintf("space %s, feed block %s", s.name, hex.EncodeToString(k))
	last, err := format.FeedPosition(k)
	if err != nil || len(v) == 0 {
		c.problem(where, "malformed")
		return nil
	}
	last-- // positions must ascend from the one in the key of the block
	cursor := feedCursor{view: c.s.view()}
	for len(v) > 0 {
		key, body, rest, err := format.NextFeedEntry(v)
		if err != nil {
			c.problem(where, "malformed entry")
			return nil
		}
		v = rest
		b, err := format.DecodeBody(body)
		if err != nil {
			c.problem(where, "malformed record")
			return nil
		}
		if b.Position <= last {
			c.problem(where, "position %d is out of order", b.Position)
		}
		last = b.Position
		sum.fed++
		inline := b
		found, err := cursor.fetch(&read{view: cursor.view, s: s}, key, &b)
		if err != nil && !errors.Is(err, format.ErrCorrupt) {
			return err
		}
		switch {
		case !found:
			c.problem(where, "key %.64q has no record at version %d, position %d", key, inline.Version, inline.Position)
		case !inline.External && !bytes.Equal(inline.Value, b.Value):
			c.problem(where, "the value at position %d differs from its record", inline.Position)
		}
	}
	return nil
}

// totals compares the stored totals of a space with sum. Last may be above the newest record
// found, since that may have been removed.
func (c *check) totals(s *space, sum *seen) {
	t, err := c.s.totals(s)
	if err != nil {
		c.problem("space "+s.name, "totals: %v", err)
		return
	}
	if t.Records != sum.records || t.Keys != sum.keys || t.Bytes != sum.bytes {
		c.problem("space "+s.name, "totals say %d records, %d keys, %d bytes; found %d, %d, %d",
			t.Records, t.Keys, t.Bytes, sum.records, sum.keys, sum.bytes)
	}
	if t.Last < sum.last {
		c.problem("space "+s.name, "totals end at position %d; a record has %d", t.Last, sum.last)
	}
}

// totals reads the totals of sp in the snapshot.
func (s *Snapshot) totals(sp *space) (format.Totals, error) {
	v, closer, err := s.db.Get(format.AppendTotalsKey(nil, sp.id))
	if err != nil {
		return format.Totals{}, err
	}
	defer closer.Close()
	return format.DecodeTotals(v)
}

// index checks a key that is not part of a space.
func (c *check) index(k, v []byte) error {
	var err error
	switch k[0] {
	case format.TagExpiry:
		_, err = format.DecodeExpiryKey(k)
	case format.TagReceipt:
		_, err = format.DecodeReceipt(v)
	case format.TagIDOrder:
		_, _, err = format.DecodeIDOrderKey(k)
	case format.TagClock:
		if len(k) > 1 {
			_, _, _, err = format.DecodeClockMark(k, v)
		}
	}
	if err != nil {
		c.problem("index entry "+hex.EncodeToString(k), "malformed")
	}
	return nil
}

// walk calls f for every key with the prefix. It reports a block that cannot be read, and ends
// there.
func (c *check) walk(prefix []byte, f func(k, v []byte) error) error {
	it, err := c.s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: format.AppendSuccessor(nil, prefix)})
	if err != nil {
		return err
	}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%1024 == 0 {
			if err := c.interrupted(); err != nil {
				it.Close()
				return err
			}
		}
		v, err := it.ValueAndErr()
		if err != nil {
			break
		}
		if err := f(it.Key(), v); err != nil {
			it.Close()
			return err
		}
	}
	if err := it.Close(); err != nil {
		c.problem("keys "+hex.EncodeToString(prefix), "cannot be read: %v", err)
	}
	return nil
}
