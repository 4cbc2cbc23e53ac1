package codec

import (
	"errors"
	"fmt"
)

// Codec encodes and decodes values of the Go types it can carry. All methods
// may be called from many goroutines.
type Codec interface {
	// Name is the codec's short name, such as "json". Views store it beside the
	// data: it must never change.
	Name() string

	// Append appends the encoding of v to dst and returns the extended buffer. On an
	// error it returns dst as it was given; bytes beyond its length may have changed.
	Append(dst []byte, v any) ([]byte, error)

	// Decode reads one value from the whole of src into what v points to, which
	// should be the zero value of its type. It keeps neither src nor v. After an
	// error the value is undefined.
	Decode(src []byte, v any) error
}

// Error says what could not be encoded or decoded, and why.
type Error struct {
	Codec string // the codec's name
	Op    string // "encode" or "decode"
	Type  string // the Go type of the value, as %T prints it
	Err   error  // the cause
}

// Error formats the error on one line.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s %s: %v", e.Codec, e.Op, e.Type, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

var errNotRaw = errors.New("want []byte, string, or a type made from one of them")

// ErrTarget is the cause of a Decode whose target is nil or no pointer.
var ErrTarget = errors.New("the target is not a pointer, or nil")

// EncodeError returns the [*Error] of a Codec that could not encode v.
func EncodeError(codec string, v any, err error) error {
	return &Error{Codec: codec, Op: "encode", Type: fmt.Sprintf("%T", v), Err: err}
}

// DecodeError returns the [*Error] of a Codec that could not decode into v.
func DecodeError(codec string, v any, err error) error {
	return &Error{Codec: codec, Op: "decode", Type: fmt.Sprintf("%T", v), Err: err}
}
