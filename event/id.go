package event

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"
)

// ID identifies one event for ever: 16 bytes, by convention a UUID. The zero ID
// means that there is none; appending gives such an event a new one.
type ID [16]byte

// NewID returns a UUID of version 7: 48 bits of Unix milliseconds, then 74
// random bits, so that IDs made later sort later to the millisecond. It is safe
// for concurrent use and costs a clock read. IDs are unique, not secret.
func NewID() ID { return newIDAt(time.Now().UnixMilli()) }

func newIDAt(ms int64) ID {
	var id ID
	r := rand.Uint64()
	binary.BigEndian.PutUint64(id[:8], uint64(ms)<<16|0x7000|r>>52)
	binary.BigEndian.PutUint64(id[8:], 1<<63|rand.Uint64()>>2)
	return id
}

// ParseID reads what [ID.String] writes: 32 hexadecimal digits in five groups.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, invalid("parse id", "%.40q is not a UUID such as 01890a5d-ac96-774b-bcce-b302099a8057", s)
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return ID{}, invalid("parse id", "%q is not a UUID: %w", s, err)
	}
	return id, nil
}

// IsZero reports whether there is no ID.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the canonical form of a UUID: 36 characters in lower case.
func (id ID) String() string {
	var b [36]byte
	id.encode(&b)
	return string(b[:])
}

func (id ID) encode(b *[36]byte) {
	hex.Encode(b[0:8], id[0:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:36], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
}

// MarshalText writes the form of [ID.String].
func (id ID) MarshalText() ([]byte, error) {
	var b [36]byte
	id.encode(&b)
	return b[:], nil
}

// UnmarshalText reads the form of [ID.String]; an empty text is the zero ID.
func (id *ID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = ID{}
		return nil
	}
	v, err := ParseID(string(text))
	if err != nil {
		return fmt.Errorf("event id: %w", err)
	}
	*id = v
	return nil
}
