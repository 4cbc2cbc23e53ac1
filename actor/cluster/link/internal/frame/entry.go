package frame

import "encoding/binary"

// Sizes of entries.
const (
	EntrySize  = 8                      // bytes of an entry before its body
	RepeatSize = 4                      // the same, with SameLane
	MaxBody    = MaxPayload - EntrySize // bytes of a message in one entry; larger ones go in parts
)

// Flags of an entry.
type Flags uint8

// The flags. More and Void are set only with Part, and not both.
const (
	SameLane Flags = 1 << iota // the lane is that of the entry before
	Part                       // the body is a part of a large message
	More                       // more parts follow
	Void                       // the parts before are to be dropped, and no more follow
)

// Entry is a message of a data frame, or a part of one.
type Entry struct {
	Flags Flags
	Lane  uint32
	Body  []byte
}

// PutEntry writes the head of an entry with a body of n bytes into b: RepeatSize bytes with SameLane,
// else EntrySize.
func PutEntry(b []byte, f Flags, lane uint32, n int) {
	binary.BigEndian.PutUint32(b, uint32(n)<<4|uint32(f))
	if f&SameLane == 0 {
		binary.BigEndian.PutUint32(b[4:], lane)
	}
}

// Append appends the entry as the first of a frame: without SameLane.
func (e Entry) Append(dst []byte) []byte {
	e.Flags &^= SameLane
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.Body))<<4|uint32(e.Flags))
	return append(binary.BigEndian.AppendUint32(dst, e.Lane), e.Body...)
}

// Entries is an iterator over the payload of a data frame.
type Entries struct {
	rest []byte
	lane uint32 // of the entry before
	some bool   // there was one with a lane
	err  error
}

// ParseEntries returns the entries of a payload.
func ParseEntries(payload []byte) Entries { return Entries{rest: payload} }

// Next returns the next entry. Its body shares the bytes of the payload. It returns false at the end
// of the payload and at the first malformed entry, see Err.
func (s *Entries) Next() (e Entry, ok bool) {
	if len(s.rest) < RepeatSize {
		if len(s.rest) != 0 {
			s.fail("%d bytes are left", len(s.rest))
		}
		return e, false
	}
	head := binary.BigEndian.Uint32(s.rest)
	e.Flags = Flags(head & 15)
	from, n := RepeatSize, int(head>>4)
	if e.Flags&SameLane == 0 {
		if len(s.rest) < EntrySize {
			return e, s.fail("%d bytes are left", len(s.rest))
		}
		s.lane, s.some = binary.BigEndian.Uint32(s.rest[4:]), true
		from = EntrySize
	} else if !s.some {
		return e, s.fail("the first entry repeats a lane")
	}
	if n > len(s.rest)-from {
		return e, s.fail("a body of %d bytes, %d are left", n, len(s.rest)-from)
	}
	if e.Flags > SameLane {
		if f := e.Flags &^ SameLane; f != Part && f != Part|More && f != Part|Void {
			return e, s.fail("flags %#x", e.Flags)
		}
	}
	e.Lane = s.lane
	e.Body = s.rest[from : from+n : from+n]
	s.rest = s.rest[from+n:]
	return e, true
}

// Err returns why Next returned false: nil at the end of the payload.
func (s *Entries) Err() error { return s.err }

func (s *Entries) fail(format string, args ...any) bool {
	s.rest = nil
	s.err = malformed("entry: "+format, args...)
	return false
}
