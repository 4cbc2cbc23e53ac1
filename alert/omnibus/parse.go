package omnibus

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting bounds how deep objects and arrays may be inside of each other in a body.
const maxNesting = 32

// parser reads JSON from front to back. What it returns shares no memory with the text.
type parser struct {
	text  []byte
	at    int
	depth int
	names map[string]string // of keys, so that each is made once
}

func (p *parser) errorf(format string, a ...any) error {
	return badRequest("the body, byte %d: "+format, append([]any{p.at}, a...)...)
}

// peek returns the next byte that is no blank, 0 at the end.
func (p *parser) peek() byte {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; c {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return c
		}
	}
	return 0
}

func (p *parser) expect(c byte) error {
	if got := p.peek(); got != c || p.at == len(p.text) {
		return p.unexpected(string(c))
	}
	p.at++
	return nil
}

func (p *parser) unexpected(want string) error {
	if p.peek(); p.at >= len(p.text) {
		return p.errorf("the JSON ends where %s is wanted", want)
	}
	return p.errorf("%q where %s is wanted", p.text[p.at], want)
}

// end checks that nothing follows.
func (p *parser) end() error {
	if p.peek(); p.at < len(p.text) {
		return p.errorf("%q behind the end of the JSON", p.text[p.at])
	}
	return nil
}

func (p *parser) enter() error {
	if p.depth++; p.depth > maxNesting {
		return p.errorf("more than %d objects and arrays inside of each other", maxNesting)
	}
	return nil
}

// object calls member for each key of an object; member reads the value.
func (p *parser) object(member func(key string) error) error {
	if err := p.expect('{'); err != nil {
		return err
	}
	if err := p.enter(); err != nil {
		return err
	}
	defer func() { p.depth-- }()
	if p.peek() == '}' {
		p.at++
		return nil
	}
	for {
		key, err := p.key()
		if err != nil {
			return err
		}
		if err := p.expect(':'); err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		if done, err := p.next('}'); done || err != nil {
			return err
		}
	}
}

// next passes the sign between two members or elements, or the one at the end.
func (p *parser) next(end byte) (done bool, err error) {
	switch p.peek() {
	case ',':
		p.at++
		return false, nil
	case end:
		if p.at < len(p.text) {
			p.at++
			return true, nil
		}
	}
	return false, p.unexpected(", or " + string(end))
}

// array calls element, which reads it, for each element of an array.
func (p *parser) array(element func() error) error {
	if err := p.expect('['); err != nil {
		return err
	}
	if err := p.enter(); err != nil {
		return err
	}
	defer func() { p.depth-- }()
	if p.peek() == ']' {
		p.at++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if done, err := p.next(']'); done || err != nil {
			return err
		}
	}
}

// maxNames bounds the keys that are remembered.
const maxNames = 1024

func (p *parser) key() (string, error) {
	p.peek()
	if raw, ok := p.simple(); ok {
		if s, ok := p.names[string(raw)]; ok {
			return s, nil
		}
		s := string(raw)
		if p.names == nil {
			p.names = map[string]string{}
		}
		if len(p.names) < maxNames {
			p.names[s] = s
		}
		return s, nil
	}
	return p.string()
}

// simple passes a string that stands for itself and returns what is in it. ok is
// false, and nothing is passed, if there is none.
func (p *parser) simple() (raw []byte, ok bool) {
	if p.at >= len(p.text) || p.text[p.at] != '"' {
		return nil, false
	}
	for i := p.at + 1; i < len(p.text); i++ {
		if c := p.text[i]; plain[c] {
			continue
		} else if c != '"' {
			return nil, false
		}
		raw = p.text[p.at+1 : i]
		p.at = i + 1
		return raw, true
	}
	return nil, false
}

// string reads a string. What is no UTF-8 becomes U+FFFD.
func (p *parser) string() (string, error) {
	if p.peek() != '"' {
		return "", p.unexpected("a string")
	}
	if raw, ok := p.simple(); ok {
		return string(raw), nil
	}
	p.at++
	var out []byte
	for {
		i := p.at
		for i < len(p.text) && (plain[p.text[i]] || p.text[i] >= utf8.RuneSelf) {
			i++
		}
		out = append(out, p.text[p.at:i]...)
		p.at = i
		switch {
		case i >= len(p.text):
			return "", p.errorf("the string has no end")
		case p.text[i] == '"':
			p.at++
			if !utf8.Valid(out) {
				out = replaceInvalid(out)
			}
			return string(out), nil
		case p.text[i] != '\\':
			return "", p.errorf("the sign %#U must be escaped", p.text[i])
		}
		var err error
		if out, err = p.escape(out); err != nil {
			return "", err
		}
	}
}

// replaceInvalid puts U+FFFD in the place of each byte that is no UTF-8.
func replaceInvalid(p []byte) []byte {
	out := make([]byte, 0, len(p)+utf8.UTFMax)
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		out = utf8.AppendRune(out, r)
		p = p[n:]
	}
	return out
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape reads an escape sequence and appends what it stands for.
func (p *parser) escape(out []byte) ([]byte, error) {
	if p.at+1 >= len(p.text) {
		return nil, p.errorf("the string has no end")
	}
	c := p.text[p.at+1]
	if e := escapes[c]; e != 0 {
		p.at += 2
		return append(out, e), nil
	}
	r, ok := p.unicode()
	if !ok {
		return nil, p.errorf("%.6q is no escape sequence", p.text[p.at:min(len(p.text), p.at+6)])
	}
	p.at += 6
	if utf16.IsSurrogate(r) {
		second, ok := p.unicode()
		if pair := utf16.DecodeRune(r, second); ok && pair != utf8.RuneError {
			p.at += 6
			return utf8.AppendRune(out, pair), nil
		}
		r = utf8.RuneError
	}
	return utf8.AppendRune(out, r), nil
}

// unicode returns what \uXXXX, if it is next, stands for.
func (p *parser) unicode() (rune, bool) {
	rest := p.text[p.at:]
	if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range rest[2:6] {
		d := strings.IndexByte(hexDigits, c|0x20)
		if d < 0 || c < '0' {
			return 0, false
		}
		r = r<<4 + rune(d)
	}
	return r, true
}

// value reads the value of a column: a string, an int64, a float64 or a bool; null,
// which no column can be, is nil.
func (p *parser) value() (any, error) {
	switch c := p.peek(); {
	case c == '"':
		return p.string()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case p.word("true"):
		return true, nil
	case p.word("false"):
		return false, nil
	case p.word("null"):
		return nil, nil
	}
	return nil, p.unexpected("a string or a number")
}

func (p *parser) word(w string) bool {
	if !bytes.HasPrefix(p.text[p.at:], []byte(w)) {
		return false
	}
	p.at += len(w)
	return true
}

func (p *parser) number() (any, error) {
	from := p.at
	real, ok := p.passNumber()
	if !ok {
		return nil, p.errorf("%.20q is no number", p.text[from:min(len(p.text), from+20)])
	}
	text := string(p.text[from:p.at])
	if !real {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, p.errorf("the number %.40s is out of range", text)
	}
	return f, nil
}

// passNumber passes a number as JSON spells them. real is whether it has a
// fraction or an exponent.
func (p *parser) passNumber() (real, ok bool) {
	if p.at < len(p.text) && p.text[p.at] == '-' {
		p.at++
	}
	first := p.at
	n := p.digits()
	if n == 0 || n > 1 && p.text[first] == '0' {
		return false, false
	}
	if p.at < len(p.text) && p.text[p.at] == '.' {
		p.at++
		real = true
		if p.digits() == 0 {
			return real, false
		}
	}
	if p.at < len(p.text) && p.text[p.at]|0x20 == 'e' {
		p.at++
		real = true
		if p.at < len(p.text) && (p.text[p.at] == '+' || p.text[p.at] == '-') {
			p.at++
		}
		if p.digits() == 0 {
			return real, false
		}
	}
	return real, true
}

func (p *parser) digits() int {
	from := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	return p.at - from
}

// skip passes any value.
func (p *parser) skip() error {
	switch p.peek() {
	case '{':
		return p.skipObject()
	case '[':
		return p.array(p.skip)
	}
	_, err := p.value()
	return err
}

func (p *parser) skipObject() error { return p.object(func(string) error { return p.skip() }) }
