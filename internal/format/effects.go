package format

import (
	"bytes"
	"encoding/binary"
)

// The effects of a frame of the journal, in the form in which LevelDB and its descendants
// keep a batch:
//
//	+-------+---------+------------------------------------------+
//	| zeros | n       | n changes                                |
//	| 8     | 4 LE    |                                          |
//	+-------+---------+------------------------------------------+
//	change: kind(1), uvarint length, key, [uvarint length, operand]
//
// A change of kind [ChangeDelete] has no operand.
const (
	ChangeDelete      = 0  // the key is deleted
	ChangeSet         = 1  // the key gets the operand as its value
	ChangeDeleteRange = 15 // all keys from key up to the operand, which is excluded, are deleted
)

const effectsHeader = 8 + 4

// Change is one change of a key. The slices alias the effects.
type Change struct {
	Kind         byte
	Key, Operand []byte
}

// Effects returns how many changes p says that it has, and the bytes of them.
func Effects(p []byte) (n uint32, changes []byte, err error) {
	if len(p) < effectsHeader || binary.LittleEndian.Uint64(p) != 0 {
		return 0, nil, ErrCorrupt
	}
	return binary.LittleEndian.Uint32(p[8:]), p[effectsHeader:], nil
}

// NextChange returns the first of changes and what follows it.
func NextChange(changes []byte) (c Change, rest []byte, err error) {
	if len(changes) == 0 {
		return c, nil, ErrCorrupt
	}
	r := reader{p: changes[1:]}
	c.Kind, c.Key = changes[0], r.bytes(r.uvarint())
	switch c.Kind {
	case ChangeDelete:
	case ChangeSet, ChangeDeleteRange:
		c.Operand = r.bytes(r.uvarint())
	default:
		return Change{}, nil, ErrCorrupt
	}
	if r.bad {
		return Change{}, nil, ErrCorrupt
	}
	return c, r.rest(), nil
}

// CheckChange returns an error unless c changes what an engine changes: a key of a kind
// that package format makes, or all keys of a kind in one space. Storage engines panic
// over some others.
func CheckChange(c Change) error {
	if c.Kind == ChangeDeleteRange {
		if len(c.Key) != headLen || bytes.IndexByte(spaceTags, c.Key[0]) < 0 || len(c.Operand) == 0 || bytes.Compare(c.Key, c.Operand) >= 0 {
			return ErrCorrupt
		}
		return nil
	}
	return checkKey(c.Key)
}

// spaceTags are the kinds of keys that go with their space.
var spaceTags = []byte{TagSlot, TagOlder, TagVersion, TagFeed}

func checkKey(k []byte) (err error) {
	if len(k) == 0 {
		return ErrCorrupt
	}
	ok := true
	switch k[0] {
	case TagSpace, TagReceipt:
		ok = len(k) > 1
	case TagTotals:
		ok = len(k) == headLen
	case TagLog, TagFrame:
		ok = len(k) == 1
	case TagSlot:
		_, err = SlotKey(k)
	case TagOlder, TagVersion:
		var prefix []byte
		if prefix, _, err = SplitVersioned(k); err == nil {
			var buf [256]byte
			_, err = AppendUnescaped(buf[:0], prefix)
		}
	case TagFeed:
		_, err = FeedPosition(k)
	case TagExpiry:
		_, err = DecodeExpiryKey(k)
	case TagIDOrder:
		_, _, err = DecodeIDOrderKey(k)
	case TagClock:
		ok = len(k) == 1 || len(k) == 1+8
	default:
		ok = false
	}
	if !ok {
		return ErrCorrupt
	}
	return err
}
