package event

import (
	"strings"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
)

// MaxStream is the most bytes that the name of a stream may have.
const MaxStream = mainstem.MaxKey

// StreamID is the name of a stream taken apart: "order-42" is category "order",
// ID "42". A category is everything before the first hyphen, so it has none itself.
type StreamID struct {
	Category string
	ID       string
}

// ParseStreamID splits name at its first hyphen: "order-2024-7" is category
// "order", ID "2024-7". A name without a hyphen, or that begins with one, has no
// category: it is all ID, and no category filter selects it. Every name can be
// split, and String puts it together again exactly.
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

// checkCategory returns an Invalid error for what is not a category.
func checkCategory(op, category string) error {
	if strings.Contains(category, "-") {
		return mainstem.Errorf(mainstem.KindInvalid, op, "category %.60q contains a hyphen: a category ends at the first one", category)
	}
	return nil
}
