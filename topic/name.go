package topic

import (
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/uuid"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// MaxName is the most bytes that a topic's name may have.
const MaxName = 249

// ValidateName returns an Invalid error unless name is 1 to [MaxName] of the
// characters a-z, A-Z, 0-9, '.', '_' and '-', and neither "." nor "..".
func ValidateName(name string) error {
	switch {
	case name == "":
		return mainstem.Refusef(mainstem.KindInvalid, "topic name", "the name is empty")
	case name == "." || name == "..":
		return mainstem.Refusef(mainstem.KindInvalid, "topic name", "%q is not allowed as a name", name)
	case len(name) > MaxName:
		return mainstem.Refusef(mainstem.KindInvalid, "topic name", "%.40q... has %d bytes: the limit is %d", name, len(name), MaxName)
	}
	for _, r := range name {
		if !nameRune(r) {
			return mainstem.Refusef(mainstem.KindInvalid, "topic name", "%q has the character %q: only letters a-z and A-Z, digits, '.', '_' and '-' are allowed", name, r)
		}
	}
	return nil
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// collides reports whether a and b differ only in '.' and '_'. Kafka's metrics replace '.' by '_'.
func collides(a, b string) bool {
	return a != b && strings.ReplaceAll(a, ".", "_") == strings.ReplaceAll(b, ".", "_")
}

// ID identifies one topic. A topic that is deleted and created again under the same name has
// another ID. It is a random UUID.
type ID = partition.ID

// newID returns a random version 4 UUID.
func newID() ID { return ID(uuid.Random()) }
