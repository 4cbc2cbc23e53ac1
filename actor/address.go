package actor

import (
	"fmt"
	"strings"
)

// Address names an actor anywhere: by the number that its node gave it, or by a
// name registered there. Addresses are values: they can be compared, used as
// map keys, printed, encoded and sent.
type Address struct {
	Node string // the node's name
	// Start is the incarnation of the node; 0 means the one that lives now.
	Start uint64
	ID    uint64 // the actor's number on that node, 0 if it is addressed by name
	Name  string // the name it was registered under, "" if it is addressed by number
}

// String returns "node/name" or "node/#number".
func (a Address) String() string {
	if a.Name != "" {
		return a.Node + "/" + a.Name
	}
	return fmt.Sprintf("%s/#%d", a.Node, a.ID)
}

// IsZero reports whether a names nothing.
func (a Address) IsZero() bool { return a == Address{} }

// validName returns an Invalid error for what cannot be the name of an actor or
// of a node.
func validName(what, name string) error {
	switch {
	case name == "":
		return invalidf("the name of %s is empty", what)
	case len(name) > MaxName:
		return invalidf("the name of %s has %d bytes: the limit is %d", what, len(name), MaxName)
	case strings.HasPrefix(name, "#"):
		return invalidf("the name %q of %s begins with #: that is how numbers are written", name, what)
	}
	if strings.Contains(name, "/") && what == "a node" {
		return invalidf("the name %q of a node has a /: it ends the name in addresses", name)
	}
	return nil
}
