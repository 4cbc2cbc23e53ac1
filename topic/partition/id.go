package partition

import (
	"encoding/base64"

	"github.com/mainstemdev/mainstem"
)

// ID identifies one topic. A topic that is deleted and created again under the same name has
// another ID. It is a random UUID.
type ID [16]byte

// String returns the ID as Kafka's tools show it: URL-safe base64 without padding.
func (id ID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// MarshalText returns what [ID.String] returns.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is the inverse of [ID.MarshalText]. Any other text is Invalid.
func (id *ID) UnmarshalText(text []byte) error {
	b, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || len(b) != len(id) {
		return mainstem.Errorf(mainstem.KindInvalid, "topic id", "%.40q is not a topic ID: want 16 bytes in URL-safe base64", text)
	}
	copy(id[:], b)
	return nil
}
