// Package uuid makes and reads the UUIDs of RFC 9562: random ones (version 4), ones that
// sort by time (version 7) and ones made of a name (version 5).
//
// All functions may be called from many goroutines.
package uuid

import (
	crand "crypto/rand"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"
)

// UUID is the 16 bytes of a UUID, in the order of its text.
type UUID [16]byte

// textLen is the length of a UUID's text.
const textLen = 36

// Random returns a UUID of version 4: 122 bits that cannot be guessed.
func Random() UUID {
	var id UUID
	_, _ = crand.Read(id[:]) // never fails
	return id.as(4)
}

// Sorted returns a UUID of version 7: 48 bits of Unix milliseconds, then 74 random bits,
// so that UUIDs made later sort later to the millisecond. It is unique, not secret.
func Sorted(ms int64) UUID {
	var id UUID
	r := rand.Uint64()
	binary.BigEndian.PutUint64(id[:8], uint64(ms)<<16|0x7000|r>>52)
	binary.BigEndian.PutUint64(id[8:], 1<<63|rand.Uint64()>>2)
	return id
}

// SortedAt is [Sorted] for a time, whose fraction of a millisecond takes 12 of the random bits (RFC 9562,
// section 6.2, method 3): UUIDs of later times sort later to a quarter of a microsecond.
func SortedAt(t time.Time) UUID {
	id := Sorted(t.UnixMilli())
	fraction := t.Nanosecond() % int(time.Millisecond) << 12 / int(time.Millisecond)
	id[6], id[7] = 0x70|byte(fraction>>8), byte(fraction)
	return id
}

// Named returns the UUID of version 5 of a name in a namespace: always the same.
func Named(space UUID, name []byte) UUID {
	h := sha1.New()
	_, _ = h.Write(space[:]) // a hash never fails
	_, _ = h.Write(name)
	return UUID(h.Sum(nil)[:16]).as(5)
}

// as sets the bits that say which version the UUID is of, and those of the variant.
func (id UUID) as(version byte) UUID {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Parse reads what [UUID.String] writes, in letters of either case: 32 hexadecimal
// digits in five groups. It takes every version.
func Parse(s string) (UUID, error) {
	var id UUID
	if len(s) != textLen || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return UUID{}, fmt.Errorf("%.40q is not a UUID such as 01890a5d-ac96-774b-bcce-b302099a8057", s)
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return UUID{}, fmt.Errorf("%q is not a UUID: %w", s, err)
	}
	return id, nil
}

// String returns the canonical text of a UUID: 36 characters in lower case.
func (id UUID) String() string {
	var b [textLen]byte
	return string(id.Append(b[:0]))
}

// Append appends the text of [UUID.String] to b.
func (id UUID) Append(b []byte) []byte {
	for i, part := range [...][]byte{id[0:4], id[4:6], id[6:8], id[8:10], id[10:16]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return b
}
