package pebblelog

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// After marks have changed, records expire at other times than the expiry index has. The whole
// index is moved once, in the background and in small commits. The key 'c' is in the log until
// that is done, so a restart begins again. Readers are correct meanwhile: they judge the
// records, not the index.

// moving is the progress of moving the indexes. Only the leader uses it.
type moving struct {
	pending bool
	from    []byte // next key of the expiry index; nil: the first
	done    bool   // the expiry index is done
}

// moveChunk is the number of entries that one commit examines.
const moveChunk = 1024

// moveIndexes moves the next part of the indexes.
func (t *tx) moveIndexes() error {
	next := t.l.moving
	if !next.pending || t.remarked { // if the marks have just changed, it begins next time, from the start
		return nil
	}
	var err error
	if !next.done {
		next.from, next.done, err = t.moveExpiries(next.from)
	} else {
		next.pending, err = t.moveIDs()
	}
	if err != nil {
		return err
	}
	if !next.pending {
		t.del([]byte{format.TagClock})
	}
	t.onPublish(func() {
		t.l.moving = next
		t.l.unmoved.Store(next.pending)
	})
	return nil
}

// moveExpiries puts the entries of the expiry index at or after the key from where they belong
// now. It returns the key to continue at, or that it is done.
func (t *tx) moveExpiries(from []byte) (next []byte, done bool, err error) {
	if from == nil {
		from = []byte{format.TagExpiry}
	}
	it, err := t.iter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{format.TagExpiry + 1}})
	if err != nil {
		return nil, false, err
	}
	defer it.Close()
	names := map[uint32]string{}
	for name, s := range t.l.spaces.Load().byName {
		names[s.id] = name
	}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > moveChunk {
			return bytes.Clone(it.Key()), false, nil
		}
		e, err := format.DecodeExpiryKey(it.Key())
		if err != nil {
			return nil, false, err
		}
		if err := t.moveExpiry(names, e); err != nil {
			return nil, false, err
		}
	}
	return nil, true, it.Error()
}

// expiresLater reports whether the record of an entry that is due expires later than the entry
// says: a jump of the clock is held, or the entry was placed by a mark that is void now. It has
// then moved the entry to where it belongs.
func (t *tx) expiresLater(names map[uint32]string, e format.Expiry) (bool, error) {
	name, ok := names[e.Space]
	if !ok || t.Hold == nil && !t.l.moving.pending && len(t.l.clockMarks()) == 0 {
		return false, nil
	}
	b, err := t.bodyAt(t.space(name), e.Key, e.Version)
	if err != nil || b == nil || t.Over(b.Clock, b.Expires, 0) {
		return false, err
	}
	return true, t.moveExpiry(names, e)
}

// moveExpiry puts one entry where its record says that it belongs, or removes the entry if the
// record is gone. It is idempotent, so a restart in the middle does no harm.
func (t *tx) moveExpiry(names map[uint32]string, e format.Expiry) error {
	var b *ownedBody
	if name, ok := names[e.Space]; ok {
		var err error
		if b, err = t.bodyAt(t.space(name), e.Key, e.Version); err != nil {
			return err
		}
	}
	if b != nil && b.Expires == e.At {
		return nil
	}
	t.del(format.AppendExpiryKey(nil, e.At, e.Space, e.Key, e.Version))
	if b == nil || b.Expires == 0 {
		return nil // the record is gone
	}
	t.set(format.AppendExpiryKey(nil, b.Expires, e.Space, e.Key, e.Version), nil)
	if t.expiry == 0 || b.Expires < t.expiry {
		t.expiry = b.Expires
	}
	return nil
}

// bodyAt returns the record or version marker of key that ends at version, or nil if there is
// none.
func (t *tx) bodyAt(ts *stagedSpace, key []byte, version uint64) (*ownedBody, error) {
	tag := byte(format.TagVersion)
	if slots(ts.policy) {
		b, err := t.readBody(format.AppendSlotKey(nil, ts.s.id, key))
		if err != nil || b != nil && b.Version == version {
			return b, err
		}
		tag = format.TagOlder
	}
	return t.readBody(format.AppendVersion(format.AppendPrefix(nil, tag, ts.s.id, key), version))
}

// moveIDs makes batch IDs that were written while the clock was far ahead count as written now.
// It reports whether there are more.
func (t *tx) moveIDs() (more bool, err error) {
	it, err := t.iter(&pebble.IterOptions{LowerBound: []byte{format.TagIDOrder}, UpperBound: []byte{format.TagIDOrder + 1}})
	if err != nil {
		return false, err
	}
	defer it.Close()
	n := 0
	for ok := it.Last(); ok; ok = it.Prev() {
		at, id, err := format.DecodeIDOrderKey(it.Key())
		if err != nil {
			return false, err
		}
		if at-t.Now <= max(int64(t.l.opts.BatchIDAge), int64(wallclock.MaxBack)) {
			break
		}
		if n++; n > moveChunk {
			return true, nil
		}
		t.del(bytes.Clone(it.Key()))
		t.set(format.AppendIDOrderKey(nil, t.Now, id), nil)
	}
	return false, it.Error()
}
