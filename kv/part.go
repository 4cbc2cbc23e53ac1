package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A part is stored so that the order of the bytes is the order of the values. The key of an index
// entry consists of its parts, one zero byte, and the key of the value; in a unique index it has no
// key of the value.
//
//	null    10
//	false   20
//	true    21
//	number  30, the largest float64 that is not above it (8 bytes), by how much it is above that (2 bytes)
//	text    40, its bytes with 00 written as 00 FF, 00
//	bytes   41, the same
//	time    50, seconds since 1970 (8 bytes), nanoseconds (4 bytes)
//
// All integers are big endian. The sign bit of a number and of seconds is flipped, and so are all
// other bits of a negative number; NaN is 0, which is below all numbers.
//
// Tags are above 00, so that a list of parts sorts before every longer list that begins with it.
// Tags are below FF, so that texts with escaped zero bytes sort correctly: the end of a text is
// followed by a tag or by 00, an escaped zero byte by FF.
const (
	tagEnd    = 0x00 // after the last part
	tagNull   = 0x10
	tagFalse  = 0x20
	tagTrue   = 0x21
	tagNumber = 0x30
	tagText   = 0x40
	tagBytes  = 0x41
	tagTime   = 0x50
	tagAbove  = 0xff // no part begins with it: it is above every continuation of a list

	escaped = 0xff // follows a zero byte that is not the end of a text
)

// Part is one value of an index: a result of [Index.Of], or an argument of a read by [Indexed.By].
// Make a Part with [Text], [Int], [Uint], [Float], [Bool], [Time], [Bytes] or [Null]. The zero Part
// is null.
//
// Parts are ordered by type, and within their type by value: null, false, true, numbers, texts,
// bytes, times. All numbers are in one order: Int(1) equals Float(1), and is before Float(1.5).
// Texts and bytes are ordered by their bytes, times by the instant; the zone of a time is not kept.
type Part struct {
	code string // as stored; "" is null
	open bool   // a text that may continue: [TextPrefix]
}

// Null returns the part that is before all others.
func Null() Part { return Part{} }

// Text returns a text part.
func Text(s string) Part {
	return Part{code: string(appendText(make([]byte, 0, len(s)+2), tagText, s))}
}

// TextPrefix returns a part that stands for all texts that begin with s. It is valid only as the
// last part of an [IndexQuery.Prefix].
func TextPrefix(s string) Part {
	code := appendText(make([]byte, 0, len(s)+2), tagText, s)
	return Part{code: string(code[:len(code)-1]), open: true}
}

// Bytes returns a part that holds a copy of p.
func Bytes(p []byte) Part {
	return Part{code: string(appendText(make([]byte, 0, len(p)+2), tagBytes, string(p)))}
}

// Bool returns a part that is true or false.
func Bool(v bool) Part {
	if v {
		return Part{code: string([]byte{tagTrue})}
	}
	return Part{code: string([]byte{tagFalse})}
}

// Int returns a number part.
func Int(v int64) Part {
	f := float64(v)
	// float64(v) is rounded to nearest, so it may be above v, and even be 1<<63.
	if f >= 1<<63 || int64(f) > v {
		f = math.Nextafter(f, math.Inf(-1))
	}
	return number(f, uint64(v)-uint64(int64(f)))
}

// Uint returns a number part.
func Uint(v uint64) Part {
	f := float64(v)
	if f >= 1<<64 || uint64(f) > v {
		f = math.Nextafter(f, math.Inf(-1))
	}
	return number(f, v-uint64(f))
}

// Float returns a number part. NaN is before all other numbers and equal to itself; both zeros are
// equal.
func Float(v float64) Part { return number(v, 0) }

// Time returns the part of an instant, without its zone.
func Time(t time.Time) Part {
	b := make([]byte, 0, 13)
	b = append(b, tagTime)
	b = binary.BigEndian.AppendUint64(b, uint64(t.Unix())^1<<63)
	return Part{code: string(binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond())))}
}

// number returns the part of f + above, where above is less than the distance to the next float64.
func number(f float64, above uint64) Part {
	b := make([]byte, 0, 11)
	b = append(b, tagNumber)
	b = binary.BigEndian.AppendUint64(b, floatBits(f))
	return Part{code: string(binary.BigEndian.AppendUint16(b, uint16(above)))}
}

func floatBits(f float64) uint64 {
	switch bits := math.Float64bits(f); {
	case math.IsNaN(f):
		return 0
	case f == 0:
		return 1 << 63
	case bits>>63 == 1:
		return ^bits
	default:
		return bits | 1<<63
	}
}

func appendText(b []byte, tag byte, s string) []byte {
	b = append(b, tag)
	for {
		i := strings.IndexByte(s, 0)
		if i < 0 {
			return append(append(b, s...), 0)
		}
		b = append(append(b, s[:i+1]...), escaped)
		s = s[i+1:]
	}
}

func (p Part) append(b []byte) []byte {
	if p.code == "" {
		return append(b, tagNull)
	}
	return append(b, p.code...)
}

// appendParts appends the stored form of parts, without the end.
func appendParts(b []byte, parts []Part) []byte {
	for _, p := range parts {
		b = p.append(b)
	}
	return b
}

// String returns the part as text: null, true, 42, "ada", 2026-01-02T03:04:05Z; bytes in hexadecimal.
func (p Part) String() string {
	if p.code == "" {
		return "null"
	}
	body := p.code[1:]
	switch p.code[0] {
	case tagFalse:
		return "false"
	case tagTrue:
		return "true"
	case tagNumber:
		return numberText(body)
	case tagText:
		if p.open {
			return strconv.Quote(strings.ReplaceAll(body, "\x00\xff", "\x00")) + "..."
		}
		return strconv.Quote(unescape(body))
	case tagBytes:
		return fmt.Sprintf("%x", unescape(body))
	case tagTime:
		sec := int64(binary.BigEndian.Uint64([]byte(body)) ^ 1<<63)
		return time.Unix(sec, int64(binary.BigEndian.Uint32([]byte(body[8:])))).UTC().Format(time.RFC3339Nano)
	}
	return "null"
}

func unescape(body string) string {
	return strings.ReplaceAll(body[:len(body)-1], "\x00\xff", "\x00")
}

func numberText(body string) string {
	f, above := numberOf(body)
	switch {
	case above == 0:
		return strconv.FormatFloat(f, 'g', -1, 64)
	case f < 0:
		return strconv.FormatInt(int64(f)+int64(above), 10)
	}
	return strconv.FormatUint(uint64(f)+above, 10)
}

func numberOf(body string) (f float64, above uint64) {
	bits := binary.BigEndian.Uint64([]byte(body))
	above = uint64(binary.BigEndian.Uint16([]byte(body[8:])))
	switch {
	case bits == 0:
		return math.NaN(), above
	case bits>>63 == 1:
		return math.Float64frombits(bits &^ (1 << 63)), above
	}
	return math.Float64frombits(^bits), above
}

// entryKey returns the key of the index entry of the value at key: parts, end, and, unless the
// index is unique, key.
func entryKey(parts []Part, key string, unique bool) []byte {
	n := len(key) + 1
	for _, p := range parts {
		n += max(len(p.code), 1)
	}
	b := append(appendParts(make([]byte, 0, n), parts), tagEnd)
	if unique {
		return b
	}
	return append(b, key...)
}

// entryEnd returns the index in an entry's key at which its parts end.
func entryEnd(entry []byte) (int, error) {
	rest := entry
	for {
		if len(rest) == 0 {
			return 0, errEntry
		}
		if rest[0] == tagEnd {
			return len(entry) - len(rest), nil
		}
		_, after, err := decodePart(rest)
		if err != nil {
			return 0, err
		}
		rest = after
	}
}

// decodeEntry is the inverse of entryKey. The key of the entry of a unique index is empty.
func decodeEntry(entry []byte) (parts []Part, key string, err error) {
	for rest := entry; len(rest) > 0; {
		if rest[0] == tagEnd {
			return parts, string(rest[1:]), nil
		}
		var p Part
		if p, rest, err = decodePart(rest); err != nil {
			return nil, "", err
		}
		parts = append(parts, p)
	}
	return nil, "", errEntry
}

var errEntry = errors.New("these bytes are no entry of an index")

// decodePart returns the first part of b and the bytes after it.
func decodePart(b []byte) (p Part, rest []byte, err error) {
	size := 0
	switch b[0] {
	case tagNull:
		return Part{}, b[1:], nil
	case tagFalse, tagTrue:
		size = 1
	case tagNumber:
		size = 11
	case tagTime:
		size = 13
	case tagText, tagBytes:
		size = textSize(b)
	}
	if size == 0 || size > len(b) {
		return Part{}, nil, errEntry
	}
	p = Part{code: string(b[:size])}
	if !p.canonical() {
		return Part{}, nil, errEntry
	}
	return p, b[size:], nil
}

// textSize returns the number of bytes of the text at the beginning of b, 0 if it does not end.
func textSize(b []byte) int {
	for i := 1; ; {
		n := bytes.IndexByte(b[i:], 0)
		if n < 0 {
			return 0
		}
		if i += n + 1; i == len(b) || b[i] != escaped {
			return i
		}
		i++
	}
}

// canonical reports whether p is the only stored form of its value.
func (p Part) canonical() bool {
	body := p.code[1:]
	switch p.code[0] {
	case tagNumber:
		f, above := numberOf(body)
		switch {
		case above == 0:
			return Float(f) == p
		case f != math.Trunc(f) || math.Abs(f) < 1<<53 || f >= 1<<64 || f < -1<<63:
			return false // a fraction, or a number whose neighbours are no more than 1 apart
		case f < 0:
			return Int(int64(f)+int64(above)) == p
		}
		return Uint(uint64(f)+above) == p
	case tagTime:
		return binary.BigEndian.Uint32([]byte(body[8:])) < 1e9
	}
	return true
}
