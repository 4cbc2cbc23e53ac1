package event

import (
	"strings"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
)

// MaxStream is the largest number of bytes in the name of a stream.
const MaxStream = mainstem.MaxKey

// StreamID is the name of a stream in parts: "order-42" has category "order" and ID "42". The
// category is the text before the first hyphen, so it contains no hyphen.
type StreamID struct {
	Category string
	ID       string
}

// ParseStreamID splits name at its first hyphen: "order-2024-7" has category "order" and ID
// "2024-7". A name without a hyphen, or with one at its beginning, has no category: all of it is
// the ID, and no category filter selects it. Every name can be split, and String restores it
// exactly.
func ParseStreamID(name string) StreamID {
	i := strings.IndexByte(name, '-')
	if i <= 0 {
		return StreamID{ID: name}
	}
	return StreamID{Category: name[:i], ID: name[i+1:]}
}

// String returns "category-id", or only the ID if there is no category.
func (s StreamID) String() string {
	if s.Category == "" {
		return s.ID
	}
	return s.Category + "-" + s.ID
}

// ValidateStream returns an Invalid error unless name is 1 to [MaxStream] bytes
// of UTF-8 without control characters.
func ValidateStream(name string) error { return checkStream("stream", name) }

func checkStream(op, name string) error {
	switch {
	case name == "":
		return mainstem.Refusef(mainstem.KindInvalid, op, "the stream has no name")
	case len(name) > MaxStream:
		return mainstem.Refusef(mainstem.KindInvalid, op, "the name of stream %.40q... has %d bytes: the limit is %d", name, len(name), MaxStream)
	case !plain(name):
		return mainstem.Refusef(mainstem.KindInvalid, op, "the name of stream %.60q is not UTF-8 without control characters", name)
	}
	return nil
}

// plain reports whether s is UTF-8 without control characters.
func plain(s string) bool {
	ascii := true
	for i := range len(s) {
		c := s[i]
		if c < 0x20 || c == 0x7f {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.ValidString(s)
}

// checkCategory returns an Invalid error if category is not a valid category.
func checkCategory(op, category string) error {
	if strings.Contains(category, "-") {
		return mainstem.Errorf(mainstem.KindInvalid, op, "category %.60q contains a hyphen: a category ends at the first one", category)
	}
	return nil
}
