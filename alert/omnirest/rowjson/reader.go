package rowjson

import (
	"errors"
	"io"
	"sync"

	"github.com/mainstemdev/mainstem"
)

// The defaults of [Limits].
const (
	DefaultMaxBytes = 1 << 30
	DefaultMaxValue = 4 << 20
	MaxDepth        = 32 // objects and arrays inside of each other
	bufferSize      = 8 << 10
)

// Limits bounds what a [Reader] takes. Zero fields mean the defaults.
type Limits struct {
	MaxBytes int64 // of the whole stream; default [DefaultMaxBytes]
	MaxValue int   // bytes of one value; default [DefaultMaxValue]
	// TrimNUL leaves out a NUL at the end of a string in a value: some object servers
	// send the one that ends their own strings.
	TrimNUL bool
}

// Reader reads JSON from a stream. It belongs to one goroutine.
type Reader struct {
	src    io.Reader
	limits Limits
	buf    []byte
	at     int   // what is read of buf
	left   int64 // of MaxBytes
	err    error // sticky
	depth  int
	key    []byte
}

// readers keeps the memory of released readers.
var readers = sync.Pool{New: func() any { return new(Reader) }}

// NewReader returns a reader of src. Nil limits mean the defaults.
func NewReader(src io.Reader, l *Limits) *Reader {
	r := readers.Get().(*Reader)
	r.Reset(src, l)
	return r
}

// Release gives the memory of r to later calls of [NewReader]. Neither r nor what it has lent
// may be used afterwards.
func (r *Reader) Release() {
	r.Reset(nil, nil)
	readers.Put(r)
}

// Reset makes r read src from its beginning, and keeps its memory.
func (r *Reader) Reset(src io.Reader, l *Limits) {
	buf, key := r.buf[:0], r.key[:0]
	*r = Reader{src: src, buf: buf, key: key}
	if l != nil {
		r.limits = *l
	}
	if r.limits.MaxBytes <= 0 {
		r.limits.MaxBytes = DefaultMaxBytes
	}
	if r.limits.MaxValue <= 0 {
		r.limits.MaxValue = DefaultMaxValue
	}
	r.left = r.limits.MaxBytes
}

// fill reads more of the stream once everything in buf is used.
func (r *Reader) fill() bool {
	if r.err != nil {
		return false
	}
	if cap(r.buf) == 0 {
		r.buf = make([]byte, 0, bufferSize)
	}
	r.at = 0
	for range 100 { // empty reads
		n, err := r.src.Read(r.buf[:cap(r.buf)])
		r.buf = r.buf[:n]
		r.left -= int64(n)
		switch {
		case r.left < 0:
			r.buf = r.buf[:0]
			r.err = mainstem.Errorf(mainstem.KindInvalid, "read result", "the result has more than %d bytes: ask for less, or raise the limit", r.limits.MaxBytes)
			return false
		case n > 0:
			return true
		case err == io.EOF:
			r.err = unavailable(io.ErrUnexpectedEOF)
			return false
		case err != nil:
			r.err = unavailable(err)
			return false
		}
	}
	r.err = unavailable(io.ErrNoProgress)
	return false
}

func unavailable(err error) error {
	var e *mainstem.Error
	if errors.As(err, &e) {
		return err
	}
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "read result", Err: err}
}

func (r *Reader) corrupt(format string, a ...any) error {
	if r.err == nil {
		r.err = mainstem.Errorf(mainstem.KindCorrupt, "read result", format, a...)
	}
	return r.err
}

// Peek returns the first byte of the next value or sign, without taking it.
func (r *Reader) Peek() (byte, error) {
	for {
		for r.at < len(r.buf) {
			switch c := r.buf[r.at]; c {
			case ' ', '\t', '\n', '\r':
				r.at++
			default:
				return c, nil
			}
		}
		if !r.fill() {
			return 0, r.err
		}
	}
}

// take takes the next byte, which must be want.
func (r *Reader) take(want byte) error {
	c, err := r.Peek()
	if err != nil {
		return err
	}
	if c != want {
		return r.corrupt("%q where %q should be", c, want)
	}
	r.at++
	return nil
}

// Object calls do with each key of the next value, which must be an object. Do has to
// take the key's value. The key is good until do returns.
func (r *Reader) Object(do func(key string) error) error {
	return r.list('{', '}', func() error {
		key, err := r.text(r.key[:0], false)
		if err != nil {
			return err
		}
		r.key = key
		if err := r.take(':'); err != nil {
			return err
		}
		text, err := unquote(key)
		if err != nil {
			return r.corrupt("key %.64q: %w", key, err)
		}
		return do(text)
	})
}

// Array calls do before each element of the next value, which must be an array. Do
// has to take the element.
func (r *Reader) Array(do func() error) error { return r.list('[', ']', do) }

func (r *Reader) list(begin, end byte, do func() error) error {
	if err := r.take(begin); err != nil {
		return err
	}
	if r.depth++; r.depth > MaxDepth {
		return r.corrupt("more than %d values inside of each other", MaxDepth)
	}
	for first := true; ; first = false {
		c, err := r.Peek()
		switch {
		case err != nil:
			return err
		case c == end && first:
			r.at++
			r.depth--
			return nil
		case first:
		case c == end:
			r.at++
			r.depth--
			return nil
		default:
			if err := r.take(','); err != nil {
				return err
			}
		}
		if err := do(); err != nil {
			return err
		}
	}
}

// Skip takes the next value and forgets it.
func (r *Reader) Skip() error {
	_, err := r.Value(nil)
	return err
}

// Int takes the next value, which must be a whole number.
func (r *Reader) Int() (int64, error) {
	raw, err := r.Value(r.key[:0])
	if err != nil {
		return 0, err
	}
	r.key = raw
	v := Value{raw: raw}
	n, ok := v.whole()
	if !ok {
		return 0, r.corrupt("%.64q where a whole number should be", raw)
	}
	return n, nil
}

// Text takes the next value as a text: of a string the text, of null nothing, of
// anything else its JSON.
func (r *Reader) Text() (string, error) {
	raw, err := r.Value(r.key[:0])
	if err != nil {
		return "", err
	}
	r.key = raw
	return Value{raw: raw}.Text(), nil
}

// End reports what is wrong if anything but white space is left in the stream.
func (r *Reader) End() error {
	c, err := r.Peek()
	if err == nil {
		return r.corrupt("%q after the end of the result", c)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
