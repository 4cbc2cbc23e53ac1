package actor

import (
	"fmt"
	"strings"
)

// Address identifies an actor of any node: by the number that its node gave it, or, if ID is 0, by
// a name that is registered there. Addresses are values: they can be compared, used as map keys,
// printed, encoded and sent. Those of one actor differ if one has a name and another has not.
type Address struct {
	Node string // the node's name
	// Start is the incarnation of the node: see [Node.Start]. 0 means the present one.
	Start uint64
	ID    uint64 // the actor's number on that node; 0 if only its name is known
	Name  string // a name of the actor. With an ID it is for people only
}

// String returns "node/name", or "node/#number" without a name. It leaves out Start; see
// AppendText.
func (a Address) String() string {
	if a.Name != "" {
		return a.Node + "/" + a.Name
	}
	return fmt.Sprintf("%s/#%d", a.Node, a.ID)
}

// IsZero reports whether a is the zero Address, which identifies no actor.
func (a Address) IsZero() bool { return a == Address{} }

// validName returns an Invalid error if name cannot be a name of what: "an actor", "a node", "an
// event" or "a group".
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
