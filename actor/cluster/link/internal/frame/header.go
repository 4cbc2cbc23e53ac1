package frame

import (
	"encoding/binary"
	"hash/crc32"
)

// Sizes.
const (
	HeaderSize = 32
	MaxPayload = 64<<10 - HeaderSize // bytes, as it follows and decompressed
)

// Type is the type of a frame.
type Type uint8

// The types of frames.
const (
	Data Type = 1 + iota // messages
	Ack                  // only a header: acknowledgement and sign of life
	Bye                  // a [Farewell]: the sender ends the session
)

// Header begins every frame.
type Header struct {
	Type        Type
	Compression uint8  // of the payload of a data frame: 0 none, 1 LZ4, 2 Zstandard
	Length      uint32 // bytes of the payload as it follows
	Number      uint64 // of a data frame that must be acknowledged; else 0
	Ack         uint64 // number of the last frame of the other end that was handled
	Size        uint32 // bytes of the payload after decompression
	CRC         uint32 // CRC-32C, set by ParseHeader; Put does not write it
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Put writes the header, without a CRC, to the first HeaderSize bytes of b.
func (h Header) Put(b []byte) {
	_ = b[HeaderSize-1]
	b[0], b[1], b[2], b[3] = byte(h.Type), h.Compression, 0, 0
	binary.BigEndian.PutUint32(b[4:], h.Length)
	binary.BigEndian.PutUint64(b[8:], h.Number)
	binary.BigEndian.PutUint64(b[16:], h.Ack)
	binary.BigEndian.PutUint32(b[24:], h.Size)
}

// Seal writes the CRC into a whole frame that has a header.
func Seal(frame []byte) { binary.BigEndian.PutUint32(frame[28:], sum(frame)) }

// Append appends a whole frame with the header's fields and the payload.
func (h Header) Append(dst, payload []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	dst = append(dst, payload...)
	h.Put(dst[at:])
	Seal(dst[at:])
	return dst
}

// sum returns the CRC-32C of a whole frame, without the field of the CRC.
func sum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[:28], castagnoli), castagnoli, frame[HeaderSize:])
}

// ParseHeader parses the first HeaderSize bytes of b. It does not check the CRC, see [Header.Check].
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, malformed("header: %d bytes, want %d", len(b), HeaderSize)
	}
	h := Header{
		Type:        Type(b[0]),
		Compression: b[1],
		Length:      binary.BigEndian.Uint32(b[4:]),
		Number:      binary.BigEndian.Uint64(b[8:]),
		Ack:         binary.BigEndian.Uint64(b[16:]),
		Size:        binary.BigEndian.Uint32(b[24:]),
		CRC:         binary.BigEndian.Uint32(b[28:]),
	}
	switch {
	case h.Type < Data || h.Type > Bye || b[2] != 0 || b[3] != 0:
		return h, malformed("header: type %#x", b[:4])
	case h.Length > MaxPayload || h.Size > MaxPayload:
		return h, malformed("header: payload of %d bytes, %d decompressed: the limit is %d", h.Length, h.Size, MaxPayload)
	case h.Compression == 0 && h.Size != h.Length:
		return h, malformed("header: payload of %d bytes, uncompressed, becomes %d", h.Length, h.Size)
	case h.Compression != 0 && (h.Compression > 2 || h.Type != Data):
		return h, malformed("header: compression %d of type %d", h.Compression, h.Type)
	case h.Type == Ack && h.Length != 0, h.Type != Data && h.Number != 0:
		return h, malformed("header: type %d has a payload or a number", h.Type)
	}
	return h, nil
}

// Check reports whether a whole frame with this header has the right CRC.
func (h Header) Check(frame []byte) bool { return sum(frame) == h.CRC }
