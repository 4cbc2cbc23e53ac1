package store

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/invariants"
)

// table has the groups of one part of the log, and indexes them for readers. Only the leader of
// the log writes it, under the lock of the tier.
type table struct {
	arena
	index
	groups int
	blocks int                // number of blocks in feeds
	feeds  map[uint32][]block // feed blocks of spaces that keep all history, in order

	last struct { // the entry of the change before; valid within a group
		number int // number of the entry; -1: none
		prefix []byte
	}
}

// block is a feed block.
type block struct {
	first uint64 // position of the first entry
	at    ref
}

func newTable() *table { return &table{feeds: map[uint32][]block{}} }

// change is one change of a group, with its place in the arena.
type change struct {
	kind         byte
	key, operand ref
}

// parse appends the changes of the group at chunk and offset to dst. It returns an error if only
// the cold tier can take one of them: see [Hot.Apply].
func parse(dst []change, chunk, offset int, effects []byte) ([]change, error) {
	n, rest, err := format.Effects(effects)
	for err == nil && len(rest) > 0 {
		var c format.Change
		if c, rest, err = format.NextChange(rest); err != nil {
			break
		}
		end := offset + len(effects) - len(rest)
		made := change{kind: c.Kind, operand: refTo(chunk, end-len(c.Operand), len(c.Operand))}
		if c.Kind == format.ChangeSet {
			end -= len(c.Operand) + uvarintLen(len(c.Operand))
		}
		made.key = refTo(chunk, end-len(c.Key), len(c.Key))
		if err = takes(&c); err == nil {
			dst = append(dst, made)
		}
	}
	if err == nil && int(n) != len(dst) {
		err = format.ErrCorrupt
	}
	return dst, err
}

func uvarintLen(n int) int {
	length := 1
	for ; n >= 0x80; n >>= 7 {
		length++
	}
	return length
}

// minKey is the length of the tag and the number of a space.
const minKey = 1 + 4

// takes returns an error for a change that the hot tier does not take.
func takes(c *format.Change) error {
	set := c.Kind == format.ChangeSet
	ok := len(c.Key) > 0 && (set || c.Kind == format.ChangeDelete)
	if ok {
		switch c.Key[0] {
		case format.TagVersion, format.TagOlder:
			ok = format.PrefixLen(c.Key) < len(c.Key)
		case format.TagSlot:
			ok = set && len(c.Key) > minKey
		case format.TagReceipt:
			ok = set
		case format.TagFeed:
			ok = len(c.Key) == minKey+8
		}
	}
	if !ok {
		return fmt.Errorf("the hot tier does not take change %d of key %.60q", c.Kind, c.Key)
	}
	return nil
}

// apply indexes the changes of a group in the arena.
func (t *table) apply(changes []change, spaces *spaces, sequence uint64) {
	t.groups++
	t.last.number = -1
	for i := range changes {
		c := &changes[i]
		key := c.key.in(t.chunks)
		switch key[0] {
		case format.TagVersion:
			s := spaces.touch(key, sequence)
			s.streams = true
			if c.kind == format.ChangeSet {
				t.append(c, key)
			}
		case format.TagSlot:
			spaces.touch(key, sequence)
			t.entries[t.entry(key, c.key)].newest = c.operand
		case format.TagReceipt:
			t.entries[t.entry(key, c.key)].newest = c.operand
		case format.TagFeed:
			if s := spaces.touch(key, sequence); s.streams && c.kind == format.ChangeSet {
				t.feed(key, c.operand)
			}
		case format.TagOlder:
			spaces.touch(key, sequence)
		}
	}
}

// entry returns the number of the entry of the key at r.
func (t *table) entry(key []byte, r ref) int {
	hash := hashOf(key)
	if n := t.find(t.chunks, hash, key); n >= 0 {
		return n
	}
	return t.insert(hash, r)
}

// append adds the record of a versioned key to the records of its prefix.
func (t *table) append(c *change, key []byte) {
	prefix := key[:format.PrefixLen(key)]
	if t.last.number < 0 || !bytes.Equal(t.last.prefix, prefix) {
		// The prefix is at the beginning of the key.
		t.last.number, t.last.prefix = t.entry(prefix, c.key-ref(len(key)-len(prefix))), prefix
	}
	e := &t.entries[t.last.number]
	if invariants.Enabled && e.newest != 0 {
		before, err := format.DecodeBody(e.newest.in(t.chunks))
		_, version, _ := format.SplitVersioned(key)
		invariants.Check(err == nil && before.Version < version, "version %d of %q comes after %d", version, prefix, before.Version)
	}
	t.extend(e, c.operand)
}

func (t *table) feed(key []byte, operand ref) {
	position, _ := format.FeedPosition(key) // takes has verified it
	id, _ := format.KeySpace(key)
	t.feeds[id] = append(t.feeds[id], block{position, operand})
	t.blocks++
}

// lookup returns the entry of key, or nil if the table has nothing of the key. t may be nil.
func (t *table) lookup(hash uint32, key []byte) *entry {
	if t == nil {
		return nil
	}
	n := t.find(t.chunks, hash, key)
	if n < 0 || t.entries[n].newest == 0 {
		return nil
	}
	return &t.entries[n]
}

// drop drops everything of key from the table. t may be nil.
func (t *table) drop(hash uint32, key []byte) {
	if e := t.lookup(hash, key); e != nil {
		t.forget(e)
	}
}

// blocksAfter returns the blocks with the entries of space above position after. It returns false
// if the table may not have all of them.
func (t *table) blocksAfter(space uint32, after uint64) ([]block, bool) {
	if t == nil {
		return nil, false
	}
	all := t.feeds[space]
	if len(all) == 0 || all[0].first > after+1 {
		return nil, false
	}
	i := sort.Search(len(all), func(i int) bool { return all[i].first > after+1 })
	return all[i-1 : len(all) : len(all)], true
}

// bytes returns the approximate size of the table, in bytes. t may be nil.
func (t *table) bytes() int {
	if t == nil {
		return 0
	}
	return t.size + t.memory() + t.blocks*blockBytes
}

// spaces has the state of spaces that the hot tier needs.
type spaces map[uint32]*space

type space struct {
	streams bool   // the space keeps all history
	touched uint64 // number of the newest group that changes the space
}

// touch records that the group changes key, and returns the space of key.
func (s *spaces) touch(key []byte, group uint64) *space {
	id, _ := format.KeySpace(key)
	sp := (*s)[id]
	if sp == nil {
		sp = new(space)
		(*s)[id] = sp
	}
	sp.touched = group
	return sp
}
