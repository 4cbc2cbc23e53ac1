package binary

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/mainstemdev/mainstem/codec"
)

// The causes of errors, for errors.Is. The error itself is a [codec.Error] that
// also says where in the value it happened.
var (
	// ErrMalformed: the input is not in this format, is cut off, or goes on after its value.
	ErrMalformed = errors.New("malformed input")

	// ErrMismatch: the input is well formed and does not fit the Go type, such as
	// a list where the type has a string, or 300 for an int8.
	ErrMismatch = errors.New("the input does not fit the type")

	// ErrLimit: the value exceeds a limit of [Options].
	ErrLimit = errors.New("limit exceeded")

	// ErrUnregistered: an interface holds a type, or the input names one, that
	// the [Registry] does not know.
	ErrUnregistered = errors.New("not registered")

	// ErrType: the Go type has no encoding.
	ErrType = errors.New("the type has no encoding")
)

// fault is a cause with the place in the value where it happened.
type fault struct {
	path string
	err  error
}

func (f *fault) Error() string { return f.path + ": " + f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// inside says that err happened in a field or an element of a value.
func inside(step string, err error) error {
	f, ok := err.(*fault)
	if !ok {
		return &fault{path: step, err: err}
	}
	if f.path[0] != '[' {
		step += "."
	}
	f.path = step + f.path
	return f
}

func inElement(i int, err error) error { return inside("["+strconv.Itoa(i)+"]", err) }

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

func mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMismatch}, args...)...)
}

func noEncoding(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrType}, args...)...)
}

func tooDeep(limit int) error {
	return fmt.Errorf("%w: nested deeper than %d levels (Options.MaxDepth); a value that contains itself has no encoding", ErrLimit, limit)
}

func encodeError(v any, err error) error {
	return &codec.Error{Codec: Name, Op: "encode", Type: fmt.Sprintf("%T", v), Err: err}
}

func decodeError(v any, err error) error {
	return &codec.Error{Codec: Name, Op: "decode", Type: fmt.Sprintf("%T", v), Err: err}
}
