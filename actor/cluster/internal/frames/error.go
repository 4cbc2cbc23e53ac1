package frames

// Limits of an error on the wire.
const (
	MaxErrorDepth = 16      // levels of errors that wrap each other
	MaxErrors     = 256     // errors of one tree
	MaxErrorText  = 8 << 10 // bytes of one text
)

// Error is an error and the errors that it wraps.
//
//	name    text: the registered name of its value or type; empty if it has none
//	text    text of up to MaxErrorText bytes
//	data    length and bytes: a value of a registered type as the codec has encoded it, else empty
//	causes  their count, a number, then each
type Error struct {
	Name   string
	Text   string
	Data   []byte
	Causes []*Error
}

// Append appends the error, which must be within the limits.
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

// error reads an error of at most depth levels, and subtracts its number of errors from *left.
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
