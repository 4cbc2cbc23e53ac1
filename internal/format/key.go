package format

import (
	"bytes"
	"encoding/binary"
)

// The tags: the first byte of every key.
const (
	TagSpace   = 'S'
	TagTotals  = 'T'
	TagLog     = 'P'
	TagSlot    = 'k'
	TagOlder   = 'h'
	TagVersion = 'v'
	TagFeed    = 'f'
	TagExpiry  = 'x'
	TagReceipt = 'i'
	TagIDOrder = 'j'
	TagClock   = 'c'
	TagFrame   = 'n'
)

const (
	headLen     = 1 + 4 // tag and space
	versionLen  = 8
	terminator  = 0x01
	escapedZero = 0xff
)

// AppendHead appends tag and space: the prefix of all keys of one kind in one space.
func AppendHead(dst []byte, tag byte, space uint32) []byte {
	dst = append(dst, tag)
	return binary.BigEndian.AppendUint32(dst, space)
}

// AppendSlotKey appends the key of the newest record of key.
func AppendSlotKey(dst []byte, space uint32, key []byte) []byte {
	return append(AppendHead(dst, TagSlot, space), key...)
}

// SlotKey returns the user's key inside a slot key.
func SlotKey(k []byte) ([]byte, error) {
	if len(k) <= headLen || k[0] != TagSlot {
		return nil, ErrCorrupt
	}
	return k[headLen:], nil
}

// AppendPrefix appends the common prefix of all versioned keys of key; tag is
// TagVersion or TagOlder.
func AppendPrefix(dst []byte, tag byte, space uint32, key []byte) []byte {
	return append(appendEscaped(AppendHead(dst, tag, space), key), 0x00, terminator)
}

func appendEscaped(dst, key []byte) []byte {
	for {
		i := bytes.IndexByte(key, 0)
		if i < 0 {
			return append(dst, key...)
		}
		dst = append(dst, key[:i+1]...)
		dst = append(dst, escapedZero)
		key = key[i+1:]
	}
}

// AppendEscaped appends the escaped key without its terminator: a bound for scans by prefix.
func AppendEscaped(dst, key []byte) []byte { return appendEscaped(dst, key) }

// AppendVersion appends v to a prefix made by [AppendPrefix].
func AppendVersion(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// SplitVersioned splits a versioned key into prefix and version.
func SplitVersioned(k []byte) (prefix []byte, version uint64, err error) {
	n := PrefixLen(k)
	if n == len(k) {
		return nil, 0, ErrCorrupt
	}
	return k[:n], binary.BigEndian.Uint64(k[n:]), nil
}

// AppendUnescaped appends the user's key of the prefix of a versioned key.
func AppendUnescaped(dst, prefix []byte) ([]byte, error) {
	if len(prefix) < headLen+2 {
		return dst, ErrCorrupt
	}
	p := prefix[headLen:]
	for {
		i := bytes.IndexByte(p, 0)
		if i < 0 || i+1 >= len(p) {
			return dst, ErrCorrupt
		}
		dst = append(dst, p[:i]...)
		switch p[i+1] {
		case escapedZero:
			dst = append(dst, 0)
		case terminator:
			if i+2 != len(p) {
				return dst, ErrCorrupt
			}
			return dst, nil
		default:
			return dst, ErrCorrupt
		}
		p = p[i+2:]
	}
}

// PrefixLen returns the length of k without its version, or len(k) if k is not
// a versioned key. It accepts any bytes: bounds of scans pass through it too.
func PrefixLen(k []byte) int {
	// The terminator must lie behind tag and space, whose bytes may look like one.
	n := len(k) - versionLen
	if n < headLen+2 || (k[0] != TagVersion && k[0] != TagOlder) {
		return len(k)
	}
	if k[n-2] != 0x00 || k[n-1] != terminator {
		return len(k)
	}
	return n
}

// AppendPrefixEnd appends the smallest key above all versions of a prefix made
// by [AppendPrefix].
func AppendPrefixEnd(dst, prefix []byte) []byte {
	dst = append(dst, prefix...)
	dst[len(dst)-1]++
	return dst
}

// AppendSuccessor appends the smallest byte string above every string that
// starts with prefix, or nothing if there is none.
func AppendSuccessor(dst, prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			dst = append(dst, prefix[:i+1]...)
			dst[len(dst)-1]++
			return dst
		}
	}
	return dst
}

// AppendFeedKey appends the key of the feed block that begins at position.
func AppendFeedKey(dst []byte, space uint32, position uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendHead(dst, TagFeed, space), position)
}

// FeedPosition returns the position in a feed key.
func FeedPosition(k []byte) (uint64, error) {
	if len(k) != headLen+8 || k[0] != TagFeed {
		return 0, ErrCorrupt
	}
	return binary.BigEndian.Uint64(k[headLen:]), nil
}

// AppendExpiryKey appends the key of the expiry index for the record of key at
// version; at is unix nanoseconds.
func AppendExpiryKey(dst []byte, at int64, space uint32, key []byte, version uint64) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, TagExpiry), uint64(at))
	dst = binary.BigEndian.AppendUint32(dst, space)
	return AppendVersion(append(dst, key...), version)
}

// Expiry is what a key of the expiry index says. Key aliases the input.
type Expiry struct {
	At      int64 // unix nanoseconds
	Space   uint32
	Key     []byte
	Version uint64
}

// DecodeExpiryKey is the inverse of [AppendExpiryKey].
func DecodeExpiryKey(k []byte) (Expiry, error) {
	const start = 1 + 8 + 4
	end := len(k) - versionLen
	if end <= start || k[0] != TagExpiry {
		return Expiry{}, ErrCorrupt
	}
	return Expiry{
		At: int64(binary.BigEndian.Uint64(k[1:])), Space: binary.BigEndian.Uint32(k[9:]),
		Key: k[start:end:end], Version: binary.BigEndian.Uint64(k[end:]),
	}, nil
}

// AppendReceiptKey appends the key under which the receipt of batch id is kept.
func AppendReceiptKey(dst []byte, id string) []byte {
	return append(append(dst, TagReceipt), id...)
}

// AppendIDOrderKey appends the key that orders batch IDs by commit time, unix nanoseconds.
func AppendIDOrderKey(dst []byte, at int64, id string) []byte {
	return append(binary.BigEndian.AppendUint64(append(dst, TagIDOrder), uint64(at)), id...)
}

// DecodeIDOrderKey is the inverse of [AppendIDOrderKey].
func DecodeIDOrderKey(k []byte) (at int64, id string, err error) {
	if len(k) <= 1+8 || k[0] != TagIDOrder {
		return 0, "", ErrCorrupt
	}
	return int64(binary.BigEndian.Uint64(k[1:])), string(k[9:]), nil
}

// AppendSpaceKey appends the key of a space's description.
func AppendSpaceKey(dst []byte, name string) []byte {
	return append(append(dst, TagSpace), name...)
}

// AppendTotalsKey appends the key of a space's totals.
func AppendTotalsKey(dst []byte, space uint32) []byte { return AppendHead(dst, TagTotals, space) }

// KeySpace returns the space number that follows the tag of k.
func KeySpace(k []byte) (uint32, error) {
	if len(k) < headLen {
		return 0, ErrCorrupt
	}
	return binary.BigEndian.Uint32(k[1:]), nil
}
