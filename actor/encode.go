package actor

import (
	"fmt"
	"strconv"
	"strings"
)

// References and replies can be encoded, and so can messages that hold them, by any codec that uses
// encoding.TextMarshaler or encoding.BinaryMarshaler. Both write:
//
//	node@start/name      an actor by name
//	node@start/#number   an actor by number, or a question
//
// start and number are decimal. The zero value is encoded as no bytes. A reference to an actor is
// encoded by number, so that it never refers to another actor that has the name later; one that was
// made from a name, and an alias, is encoded by name.
//
// A decoded reference or reply is bound to no node until [Ref.On] or [Reply.On] is called. For
// messages that come through a [Transport], [Inbound] does that.

// AppendText appends the address to b, by number if it has one, else by name. Unlike String it
// includes Start.
func (a Address) AppendText(b []byte) ([]byte, error) {
	if a.IsZero() {
		return b, nil
	}
	b = append(b, a.Node...)
	b = append(b, '@')
	b = strconv.AppendUint(b, a.Start, 10)
	b = append(b, '/')
	if a.ID == 0 {
		return append(b, a.Name...), nil
	}
	b = append(b, '#')
	return strconv.AppendUint(b, a.ID, 10), nil
}

// MarshalText encodes the address; an address with a number loses its name.
func (a Address) MarshalText() ([]byte, error) { return a.AppendText(nil) }

// UnmarshalText is the inverse of MarshalText. It fails with Invalid.
func (a *Address) UnmarshalText(text []byte) error {
	parsed, err := ParseAddress(string(text))
	if err == nil {
		*a = parsed
	}
	return err
}

// ParseAddress is the inverse of [Address.MarshalText]. It accepts no other text: it fails with
// Invalid.
func ParseAddress(text string) (Address, error) {
	if text == "" {
		return Address{}, nil
	}
	node, rest, ok := strings.Cut(text, "/")
	at := strings.LastIndexByte(node, '@')
	if !ok || at < 0 {
		return Address{}, invalidf("%.64q is no address: want node@start/name or node@start/#number", text)
	}
	a := Address{Node: node[:at]}
	start, err := parseUint(node[at+1:])
	if err != nil {
		return Address{}, invalidf("%.64q is no address: its start: %w", text, err)
	}
	a.Start = start
	if err := validName("a node", a.Node); err != nil {
		return Address{}, err
	}
	if number, ok := strings.CutPrefix(rest, "#"); ok {
		if a.ID, err = parseUint(number); err != nil || a.ID == 0 {
			return Address{}, invalidf("%.64q is no address: its number is %q", text, number)
		}
		return a, nil
	}
	a.Name = rest
	return a, validName("an actor", a.Name)
}

// parseUint parses a decimal number as strconv.AppendUint writes it, without signs or leading
// zeros.
func parseUint(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err == nil && strconv.FormatUint(n, 10) != s {
		err = fmt.Errorf("%q is not how the number is written", s)
	}
	return n, err
}

// AppendText appends the encoded reference to b. It fails with Invalid for a reference that no
// other node can use: one that was made by [Adapt], or refers to a [Router], a [Pool] or a key of a
// [Keyed].
func (r Ref[M]) AppendText(b []byte) ([]byte, error) {
	what := "made by Adapt"
	switch to := r.to.(type) {
	case nil:
		return b, nil
	case *process[M]:
		return to.exact().AppendText(b)
	case *alias[M]:
		return to.address().AppendText(b)
	case remote[M]:
		return to.at.AppendText(b)
	case *Router[M]:
		what = "to a router"
	case *Pool[M]:
		what = "to a pool"
	case interface{ seat() *Node }:
		what = "to a key of a Keyed"
	}
	return b, invalidf("a %T %s cannot be encoded: no other node can use it", r, what)
}

// MarshalText encodes the reference.
func (r Ref[M]) MarshalText() ([]byte, error) { return r.AppendText(nil) }

// MarshalBinary encodes the reference like MarshalText.
func (r Ref[M]) MarshalBinary() ([]byte, error) { return r.AppendText(nil) }

// UnmarshalText decodes a reference, which is bound to no node; see [Ref.On]. It fails with
// Invalid. It does not check that the actor takes messages of type M.
func (r *Ref[M]) UnmarshalText(text []byte) error {
	a, err := ParseAddress(string(text))
	if err != nil {
		return err
	}
	*r = Ref[M]{}
	if !a.IsZero() {
		r.to = remote[M]{at: a}
	}
	return nil
}

// UnmarshalBinary decodes a reference like UnmarshalText.
func (r *Ref[M]) UnmarshalBinary(data []byte) error { return r.UnmarshalText(data) }

// AppendText appends the encoded reply to b. Other nodes can answer by it from then on, until the
// question has been answered. It fails with Invalid for a reply that was made by [NewReply],
// Unavailable if the question is bound to no node.
func (r Reply[R]) AppendText(b []byte) ([]byte, error) {
	switch to := r.to.(type) {
	case nil:
		return b, nil
	case *question[R]:
		if to.node == nil {
			return b, fault("encode a reply to", Address{}, ErrUnreachable)
		}
		return to.publish(r.ticket, "").AppendText(b)
	case *farQuestion[R]:
		return to.at.AppendText(b)
	}
	return b, invalidf("a %T made by NewReply cannot be encoded", r)
}

// MarshalText encodes the reply.
func (r Reply[R]) MarshalText() ([]byte, error) { return r.AppendText(nil) }

// MarshalBinary encodes the reply like MarshalText.
func (r Reply[R]) MarshalBinary() ([]byte, error) { return r.AppendText(nil) }

// UnmarshalText decodes a reply, which is bound to no node; see [Reply.On]. It fails with Invalid.
func (r *Reply[R]) UnmarshalText(text []byte) error {
	a, err := ParseAddress(string(text))
	if err != nil {
		return err
	}
	*r = Reply[R]{}
	if !a.IsZero() {
		r.to = &farQuestion[R]{at: a}
	}
	return nil
}

// UnmarshalBinary decodes a reply like UnmarshalText.
func (r *Reply[R]) UnmarshalBinary(data []byte) error { return r.UnmarshalText(data) }
