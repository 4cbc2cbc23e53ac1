package pglog

import (
	"encoding/binary"
	"errors"

	"github.com/mainstemdev/mainstem"
)

// Headers are stored as bytes that PL/pgSQL can read too (function headers in
// sql/views.sql). A record without headers stores null.
//
//	+-------+-------------------------------------------------------+
//	| count | count times:                                          |
//	| 2 BE  | name length 2 BE, name, value length + 1 4 BE, value  |
//	+-------+-------------------------------------------------------+
//
// A value length of 0 stands for nil. The format is persisted: it never changes.

// headerOverhead is what a header takes besides its name and value.
const headerOverhead = 6

var errHeaders = errors.New("malformed headers")

// appendHeaders appends h, which is not empty and within the limits of a batch.
func appendHeaders(dst []byte, h mainstem.Headers) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(h)))
	for i := range h {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(h[i].Name)))
		dst = append(dst, h[i].Name...)
		if h[i].Value == nil {
			dst = binary.BigEndian.AppendUint32(dst, 0)
			continue
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(h[i].Value))+1)
		dst = append(dst, h[i].Value...)
	}
	return dst
}

// decodeHeaders returns headers whose values share the memory of b.
func decodeHeaders(b []byte) (mainstem.Headers, error) {
	if len(b) == 0 {
		return nil, nil
	}
	return appendDecoded(nil, b, func(name []byte) string { return string(name) })
}

// appendDecoded appends the headers in b to dst; their values share the memory of b.
func appendDecoded(dst mainstem.Headers, b []byte, name func([]byte) string) (mainstem.Headers, error) {
	n, b, ok := takeUint16(b)
	if !ok || n*headerOverhead > len(b) {
		return nil, errHeaders
	}
	for range n {
		length, rest, ok := takeUint16(b)
		if !ok || length+4 > len(rest) {
			return nil, errHeaders
		}
		h := mainstem.Header{Name: name(rest[:length])}
		size := uint64(binary.BigEndian.Uint32(rest[length:]))
		b = rest[length+4:]
		if size > 0 {
			if size-1 > uint64(len(b)) {
				return nil, errHeaders
			}
			h.Value, b = b[:size-1:size-1], b[size-1:]
		}
		dst = append(dst, h)
	}
	if len(b) != 0 {
		return nil, errHeaders
	}
	return dst, nil
}

func takeUint16(b []byte) (int, []byte, bool) {
	if len(b) < 2 {
		return 0, nil, false
	}
	return int(binary.BigEndian.Uint16(b)), b[2:], true
}
