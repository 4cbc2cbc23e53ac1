package event

import (
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/uuid"
)

// ID identifies one event: 16 bytes, by convention a UUID. The zero ID means that the event has
// none; it gets a new one when it is appended.
type ID [16]byte

// NewID returns a UUID of version 7: 48 bits of Unix milliseconds, then 74
// random bits, so that IDs made later sort later to the millisecond. It is safe
// for concurrent use and costs a clock read. IDs are unique, not secret.
func NewID() ID { return newIDAt(time.Now().UnixMilli()) }

func newIDAt(ms int64) ID { return ID(uuid.Sorted(ms)) }

// ParseID is the inverse of [ID.String]: it reads 32 hexadecimal digits in five groups.
func ParseID(s string) (ID, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return ID{}, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "parse id", Err: err}
	}
	return ID(id), nil
}

// IsZero reports whether there is no ID.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the canonical form of a UUID: 36 characters in lower case.
func (id ID) String() string { return uuid.UUID(id).String() }

// MarshalText returns the form of [ID.String].
func (id ID) MarshalText() ([]byte, error) { return uuid.UUID(id).Append(nil), nil }

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
