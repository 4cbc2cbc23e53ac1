package format

import (
	"bytes"
	"encoding/binary"
	"math"
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
//
// A count of 0 is none: since format 2 it says that the record was written at a clock
// reading before its time, and is followed by a uvarint, how long before in ns, and by
// the count, also if that is 1.
const (
	flagTombstone     = 0x03 // two bits: mainstem.Tombstone
	flagNil           = 0x04 // the value is nil, not empty
	flagHeaders       = 0x08
	flagExpires       = 0x10
	flagCount         = 0x20 // count is not 1, or a lag precedes it
	flagVersionMarker = 0x40 // no record: only remembers the key's version; see SetWritten
	flagExternal      = 0x80 // in feed blocks: the value stands with the record, not here
)

// Body is a record as persisted, without its key. The slices alias the input.
type Body struct {
	Version       uint64
	Position      uint64
	Time          int64 // unix nanoseconds
	Clock         int64 // what the clock showed at the commit, at most Time, unix nanoseconds; 0 stands for Time, and is never decoded
	Expires       int64 // unix nanoseconds; 0 means never
	Count         uint32
	Tombstone     mainstem.Tombstone
	VersionMarker bool
	External      bool
	Value         []byte

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
	lag := b.lag()
	if b.Count != 1 || lag != 0 {
		flags |= flagCount
	}
	if b.VersionMarker {
		flags |= flagVersionMarker
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
	if lag != 0 {
		dst = binary.AppendUvarint(append(dst, 0), lag)
	}
	if b.Count != 1 || lag != 0 {
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

// lag returns by how many ns the clock was behind the record's time.
func (b *Body) lag() uint64 {
	if b.Clock == 0 || b.Clock >= b.Time {
		return 0
	}
	return uint64(b.Time) - uint64(b.Clock)
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
	err := b.Decode(p)
	return b, err
}

// bodyMin is the length of the shortest body: flags, version, position, time.
const bodyMin = 1 + 1 + 1 + 8

// flagsOptional are the flags of the fields that most records lack.
const flagsOptional = flagHeaders | flagExpires | flagCount

// Decode is [DecodeBody] into b, for loops.
func (b *Body) Decode(p []byte) error {
	if len(p) < bodyMin {
		return ErrCorrupt
	}
	flags, i := p[0], 2
	if b.Version = uint64(p[1]); b.Version >= 0x80 {
		var n int
		if b.Version, n = binary.Uvarint(p[1:]); n <= 0 {
			return ErrCorrupt
		}
		i = 1 + n
	}
	var n int
	if b.Position, n = binary.Uvarint(p[i:]); n <= 0 || len(p)-i-n < 8 {
		return ErrCorrupt
	}
	i += n
	b.Time = int64(binary.LittleEndian.Uint64(p[i:]))
	b.Tombstone = mainstem.Tombstone(flags & flagTombstone)
	b.VersionMarker = flags&flagVersionMarker != 0
	b.External = flags&flagExternal != 0
	b.Clock, b.Expires, b.Count, b.headers = b.Time, 0, 1, nil
	p = p[i+8:]
	if flags&flagsOptional != 0 {
		var err error
		if p, err = b.decodeOptional(p, flags); err != nil {
			return err
		}
	}
	b.Value = nil
	if flags&(flagNil|flagExternal) == 0 {
		b.Value = p[:len(p):len(p)]
	} else if len(p) != 0 {
		return ErrCorrupt
	}
	return nil
}

// decodeOptional reads the fields that flags announce and returns what follows.
func (b *Body) decodeOptional(p []byte, flags byte) ([]byte, error) {
	r := reader{p: p}
	if flags&flagExpires != 0 {
		b.Expires = int64(r.fixed64())
	}
	if flags&flagCount != 0 {
		n := r.uvarint()
		if n == 0 {
			b.Clock = int64(uint64(b.Time) - r.uvarint())
			n = r.uvarint()
		}
		if n == 0 || n > math.MaxUint32 || b.Clock > b.Time {
			return nil, ErrCorrupt
		}
		b.Count = uint32(n)
	}
	if flags&flagHeaders != 0 {
		b.headers = r.headers()
	}
	if r.bad {
		return nil, ErrCorrupt
	}
	return r.rest(), nil
}

// Headers decodes the headers into dst, which may be nil or reused. Their values
// alias the input unless copyBytes is true.
func (b *Body) Headers(dst mainstem.Headers, copyBytes bool) mainstem.Headers {
	if len(b.headers) == 0 {
		return nil
	}
	r := reader{p: b.headers}
	n := int(r.uvarint())
	if cap(dst) < n {
		dst = make(mainstem.Headers, n)
	}
	dst = dst[:n]
	if copyBytes {
		r = reader{p: append([]byte(nil), r.rest()...)}
	}
	for i := range dst {
		h := &dst[i]
		// One record has the names of the record before, mostly.
		if name := r.bytes(r.uvarint()); h.Name != string(name) {
			h.Name = intern(name)
		}
		if n := r.uvarint(); n > 0 {
			h.Value = r.bytes(n - 1)
		} else if h.Value != nil {
			h.Value = nil
		}
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
		r.skip(n)
		size += int64(n)
		if v := r.uvarint(); v > 0 {
			r.skip(v - 1)
			size += int64(v - 1)
		}
	}
	return size
}

// Lender turns bodies into records of the contract, one after the other, without
// copying their bytes. It writes only the fields that change from one to the next:
// the record is passed on by value, and copying what was just written stalls.
type Lender struct {
	Record mainstem.Record // Space is set by the owner

	headers mainstem.Headers // reused
	time    int64            // what Record.Time stands for
	expires int64            // what Record.Expires stands for
}

// Reset makes l as new, but for memory that it uses again.
func (l *Lender) Reset() {
	headers := l.headers[:cap(l.headers)]
	clear(headers)
	*l = Lender{headers: headers[:0]}
}

// Fill makes l.Record the record of key with body b. Its slices alias those of b and key.
func (l *Lender) Fill(key []byte, b *Body) {
	r := &l.Record
	r.Key, r.Value = key, b.Value
	r.Version, r.Position = mainstem.Version(b.Version), mainstem.Position(b.Position)
	if r.Count != b.Count {
		r.Count = b.Count
	}
	if r.Tombstone != b.Tombstone {
		r.Tombstone = b.Tombstone
	}
	if l.time != b.Time || r.Time.IsZero() {
		l.time, r.Time = b.Time, time.Unix(0, b.Time)
	}
	expires := b.Expires
	if b.Tombstone != mainstem.Live {
		expires = 0 // when the tombstone goes is the engine's own business
	}
	if l.expires != expires {
		l.expires, r.Expires = expires, time.Time{}
		if expires != 0 {
			r.Expires = time.Unix(0, expires)
		}
	}
	if len(b.headers) > 0 {
		l.headers = b.Headers(l.headers, false)
		r.Headers = l.headers
	} else if r.Headers != nil {
		r.Headers = nil
	}
}

// largeValue is the length, in bytes, from which a value is copied by itself: memory for it alone
// need not be cleared before, which takes longer than another allocation.
const largeValue = 8 << 10

// Own returns the record of key with body b in memory of its own.
func (b *Body) Own(space string, key []byte) mainstem.Record {
	l := Lender{Record: mainstem.Record{Space: space}}
	plain := *b
	plain.headers = nil
	l.Fill(nil, &plain)
	r := l.Record
	if len(b.Value) >= largeValue {
		r.Key, r.Value = bytes.Clone(key), bytes.Clone(b.Value)
	} else { // one allocation for both
		buf := append(make([]byte, 0, len(key)+len(b.Value)), key...)
		r.Key = buf[:len(key):len(key)]
		if b.Value != nil {
			r.Value = append(buf, b.Value...)[len(key):]
		}
	}
	if len(b.headers) > 0 {
		r.Headers = b.Headers(nil, true)
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

// SetWritten makes the version marker b say that the newest record of its key had
// position p.
func (b *Body) SetWritten(p uint64) { b.Value = binary.AppendUvarint(nil, p) }

// Written returns what [Body.SetWritten] was given, 0 if the version marker b does not say:
// older programs wrote it.
func (b *Body) Written() uint64 {
	p, n := binary.Uvarint(b.Value)
	if n <= 0 {
		return 0
	}
	return p
}
