package omnibus

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxNesting bounds how deep objects and arrays may be inside of each other in what is skipped.
const maxNesting = 32

// parser reads JSON token by token: what a body holds is checked as it comes, keys that are
// there twice included, and kept once.
type parser struct{ dec *json.Decoder }

func newParser(text []byte) *parser {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return &parser{dec}
}

func (p *parser) errorf(format string, a ...any) error {
	return badRequest("the body, byte %d: "+format, append([]any{p.dec.InputOffset()}, a...)...)
}

// token returns the next token; want says in an error what it should have been.
func (p *parser) token(want string) (json.Token, error) {
	t, err := p.dec.Token()
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, p.errorf("the JSON ends where %s is wanted", want)
	case err != nil:
		return nil, p.errorf("%w", err)
	}
	return t, nil
}

// begin reads the sign that an object or array begins with.
func (p *parser) begin(want json.Delim) error {
	t, err := p.token(want.String())
	if err == nil && t != want {
		err = p.errorf("%.40q where %s is wanted", t, want)
	}
	return err
}

// end checks that nothing follows.
func (p *parser) end() error {
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return p.errorf("something stands behind the end of the JSON")
	}
	return nil
}

// object calls member for each key of an object; member reads the value.
func (p *parser) object(member func(key string) error) error {
	if err := p.begin('{'); err != nil {
		return err
	}
	for p.dec.More() {
		key, err := p.string()
		if err == nil {
			err = member(key)
		}
		if err != nil {
			return err
		}
	}
	_, err := p.token("}")
	return err
}

// array calls element, which reads it, for each element of an array.
func (p *parser) array(element func() error) error {
	if err := p.begin('['); err != nil {
		return err
	}
	for p.dec.More() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := p.token("]")
	return err
}

// string reads a string. What is no UTF-8 becomes U+FFFD.
func (p *parser) string() (string, error) {
	t, err := p.token("a string")
	s, ok := t.(string)
	if err == nil && !ok {
		err = p.errorf("%.40q where a string is wanted", t)
	}
	return s, err
}

// value reads the value of a column: a string, an int64, a float64 or a bool; null,
// which no column can be, is nil.
func (p *parser) value() (any, error) {
	t, err := p.token("a string or a number")
	if err != nil {
		return nil, err
	}
	switch v := t.(type) {
	case json.Delim:
		return nil, p.errorf("%s where a string or a number is wanted", v)
	case json.Number:
		return p.number(v)
	}
	return t, nil
}

func (p *parser) number(text json.Number) (any, error) {
	if n, err := text.Int64(); err == nil {
		return n, nil
	}
	f, err := text.Float64()
	if err != nil {
		return nil, p.errorf("the number %.40s is out of range", text)
	}
	return f, nil
}

// skip passes any value.
func (p *parser) skip() error {
	for depth := 0; ; {
		t, err := p.token("a value")
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxNesting {
				return p.errorf("more than %d objects and arrays inside of each other", maxNesting)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

func (p *parser) skipObject() error { return p.object(func(string) error { return p.skip() }) }
