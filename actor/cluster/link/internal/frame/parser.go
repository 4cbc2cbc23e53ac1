package frame

import "encoding/binary"

// appendString appends a string: a byte with its length, then its bytes, of which it cuts those after
// the first 255.
func appendString(dst []byte, s string) []byte {
	s = s[:min(len(s), 255)]
	return append(append(dst, byte(len(s))), s...)
}

// parser reads fields from the front of rest. If rest is too short for a field, it sets short, and
// that field and all later ones are zero.
type parser struct {
	rest  []byte
	short bool
}

func (p *parser) bytes(n int) []byte {
	if len(p.rest) < n {
		p.rest, p.short = nil, true
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *parser) copy(dst []byte) { copy(dst, p.bytes(len(dst))) }

func (p *parser) uint8() uint8 {
	if b := p.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *parser) uint16() uint16 {
	if b := p.bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (p *parser) uint64() uint64 {
	if b := p.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (p *parser) string() string { return string(p.bytes(int(p.uint8()))) }

// end returns an error unless exactly all bytes have been read.
func (p *parser) end(what string) error {
	switch {
	case p.short:
		return malformed("%s: it ends too early", what)
	case len(p.rest) > 0:
		return malformed("%s: %d bytes too many", what, len(p.rest))
	}
	return nil
}
