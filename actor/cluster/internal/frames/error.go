package frames

// Limits of an error on the wire.
const (
	MaxErrorDepth = 16      // errors that wrap each other
	MaxErrors     = 256     // in one tree
	MaxErrorText  = 8 << 10 // bytes of one text
)

// Error is an error and what it wraps.
//
//	name    text: under which its value or type is registered; empty for none
//	text    text of up to MaxErrorText bytes
//	data    length and bytes: of a type, as the codec has written it
//	causes  their count, a number, then each
type Error struct {
	Name   string
	Text   string
	Data   []byte
	Causes []*Error
}

// Append appends the error, which must keep to the limits.
func (e *Error) Append(dst []byte) []byte {
	dst = appendText(appendText(dst, e.Name), e.Text)
	dst = append(appendUvarint(dst, uint64(len(e.Data))), e.Data...)
	dst = appendUvarint(dst, uint64(len(e.Causes)))
	for _, c := range e.Causes {
		dst = c.Append(dst)
	}
	return dst
}

// ParseError parses what Append writes.
func ParseError(data []byte) (*Error, error) {
	r := reader{rest: data}
	left := MaxErrors
	e := r.error(MaxErrorDepth, &left)
	return e, r.end()
}

func (r *reader) error(depth int, left *int) *Error {
	if *left--; depth == 0 || *left < 0 {
		r.fail("an error of more than %d errors, or %d within each other", MaxErrors, MaxErrorDepth)
		return nil
	}
	e := &Error{Name: r.text(), Text: string(r.bytes(MaxErrorText))}
	if data := r.bytes(len(r.rest)); len(data) > 0 {
		e.Data = data
	}
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		e.Causes = append(e.Causes, r.error(depth-1, left))
	}
	return e
}
