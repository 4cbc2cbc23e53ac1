package format

import (
	"encoding/binary"
	"time"

	"github.com/mainstemdev/mainstem"
)

// A record body, the value of 'k', 'h' and 'v' keys and part of a feed entry:
//
//	+-------+---------+----------+---------+-----------+---------+-----------+-------+
//	| flags | version | position | time    | [expires] | [count] | [headers] | value |
//	| 1     | uvarint | uvarint  | 8 LE ns | 8 LE ns   | uvarint |           | rest  |
//	+-------+---------+----------+---------+-----------+---------+-----------+-------+
//
// headers: uvarint n, then n times: uvarint length, name, uvarint length + 1 (0
// stands for nil), value.
const (
	flagTombstone = 0x03 // two bits: mainstem.Tombstone
	flagNil       = 0x04 // the value is nil, not empty
	flagHeaders   = 0x08
	flagExpires   = 0x10
	flagCount     = 0x20 // count is not 1
	flagGhost     = 0x40 // no record: only remembers the key's version
	flagExternal  = 0x80 // in feed blocks: the value stands with the record, not here
)

// Body is a record as persisted, without its key. The slices alias the input.
type Body struct {
	Version   uint64
	Position  uint64
	Time      int64 // unix nanoseconds
	Expires   int64 // unix nanoseconds; 0 means never
	Count     uint32
	Tombstone mainstem.Tombstone
	Ghost     bool
	External  bool
	Value     []byte

	headers []byte // encoded; see Headers
}

// AppendBody appends b with headers h to dst. b.External leaves the value out.
func AppendBody(dst []byte, b *Body, h mainstem.Headers) []byte {
	flags := byte(b.Tombstone) & flagTombstone
	if b.Value == nil {
		flags |= flagNil
	}
	if len(h) > 0 {
		flags |= flagHeaders
	}
	if b.Expires != 0 {
		flags |= flagExpires
	}
	if b.Count != 1 {
		flags |= flagCount
	}
	if b.Ghost {
		flags |= flagGhost
	}
	if b.External {
		flags |= flagExternal
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, b.Version)
	dst = binary.AppendUvarint(dst, b.Position)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(b.Time))
	if b.Expires != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(b.Expires))
	}
	if b.Count != 1 {
		dst = binary.AppendUvarint(dst, uint64(b.Count))
	}
	if len(h) > 0 {
		dst = appendHeaders(dst, h)
	}
	if b.External {
		return dst
	}
	return append(dst, b.Value...)
}

func appendHeaders(dst []byte, h mainstem.Headers) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(h)))
	for i := range h {
		dst = binary.AppendUvarint(dst, uint64(len(h[i].Name)))
		dst = append(dst, h[i].Name...)
		if h[i].Value == nil {
			dst = append(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(h[i].Value))+1)
		dst = append(dst, h[i].Value...)
	}
	return dst
}

// DecodeBody reads a record body. Value and headers alias p. The headers are
// walked but not decoded: see [Body.Headers].
func DecodeBody(p []byte) (Body, error) {
	var b Body
	err := b.decode(p)
	return b, err
}

func (b *Body) decode(p []byte) error {
	if len(p) == 0 {
		return ErrCorrupt
	}
	flags := p[0]
	r := reader{p: p[1:]}
	b.Tombstone = mainstem.Tombstone(flags & flagTombstone)
	b.Ghost = flags&flagGhost != 0
	b.External = flags&flagExternal != 0
	b.Version = r.uvarint()
	b.Position = r.uvarint()
	b.Time = int64(r.fixed64())
	b.Expires = 0
	if flags&flagExpires != 0 {
		b.Expires = int64(r.fixed64())
	}
	b.Count = 1
	if flags&flagCount != 0 {
		n := r.uvarint()
		if n > 1<<32-1 {
			return ErrCorrupt
		}
		b.Count = uint32(n)
	}
	b.headers = nil
	if flags&flagHeaders != 0 {
		b.headers = r.headers()
	}
	if r.bad {
		return ErrCorrupt
	}
	b.Value = nil
	if flags&flagNil == 0 && !b.External {
		b.Value = r.p[:len(r.p):len(r.p)]
	} else if len(r.p) != 0 {
		return ErrCorrupt
	}
	return nil
}

// HasHeaders reports whether the record has headers.
func (b *Body) HasHeaders() bool { return len(b.headers) > 0 }

// Headers decodes the headers into dst, which may be nil or reused. With a nil
// arena the values alias the input; otherwise they are copied.
func (b *Body) Headers(dst mainstem.Headers, copyBytes bool) mainstem.Headers {
	if len(b.headers) == 0 {
		return nil
	}
	r := reader{p: b.headers}
	n := int(r.uvarint())
	if cap(dst) < n {
		dst = make(mainstem.Headers, 0, n)
	}
	dst = dst[:0]
	if copyBytes {
		r.p = append([]byte(nil), r.p...)
	}
	for range n {
		name := r.bytes(r.uvarint())
		h := mainstem.Header{Name: intern(name)}
		if n := r.uvarint(); n > 0 {
			h.Value = r.bytes(n - 1)
		}
		dst = append(dst, h)
	}
	return dst
}

// Size returns the bytes of headers and value: with the key's length, what
// counts towards a space's bytes.
func (b *Body) Size() int64 {
	size := int64(len(b.Value))
	if len(b.headers) == 0 {
		return size
	}
	r := reader{p: b.headers}
	for range int(r.uvarint()) {
		n := r.uvarint()
		r.bytes(n)
		size += int64(n)
		if v := r.uvarint(); v > 0 {
			r.bytes(v - 1)
			size += int64(v - 1)
		}
	}
	return size
}

// EncodedHeaders returns the headers as persisted, for copying a body.
func (b *Body) EncodedHeaders() []byte { return b.headers }

// Record turns b into a record of the contract. Headers are decoded into h,
// which may be nil. Nothing is copied.
func (b *Body) Record(space string, key []byte, h mainstem.Headers) mainstem.Record {
	r := mainstem.Record{
		Space: space, Key: key,
		Version: mainstem.Version(b.Version), Count: b.Count, Position: mainstem.Position(b.Position),
		Time: time.Unix(0, b.Time), Tombstone: b.Tombstone, Value: b.Value,
	}
	if b.Expires != 0 && b.Tombstone == mainstem.Live {
		r.Expires = time.Unix(0, b.Expires)
	}
	if len(b.headers) > 0 {
		r.Headers = b.Headers(h, false)
	}
	return r
}

// PeekPosition returns the position of an encoded body without decoding the rest.
func PeekPosition(p []byte) (uint64, error) {
	if len(p) == 0 {
		return 0, ErrCorrupt
	}
	r := reader{p: p[1:]}
	r.uvarint()
	pos := r.uvarint()
	if r.bad {
		return 0, ErrCorrupt
	}
	return pos, nil
}

// DropHeaders forgets the headers.
func (b *Body) DropHeaders() { b.headers = nil }
