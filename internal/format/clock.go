package format

import "encoding/binary"

// ClockMark is a 'c' key and its value: after Position was given out, the clock was
// found to be set back. Records up to there whose readings of the clock are later than
// Clock were written while it was ahead; they count as written at Clock.
//
//	key: 'c', 8 BE position; value: 8 LE high, 8 LE clock (unix ns)
type ClockMark struct {
	Position uint64
	High     int64 // the latest reading before it was set back
	Clock    int64 // what it showed then
}

// AppendClockKey appends the key of the mark at position.
func AppendClockKey(dst []byte, position uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, TagClock), position)
}

// AppendClockMark appends the value of m.
func AppendClockMark(dst []byte, m ClockMark) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(m.High))
	return binary.LittleEndian.AppendUint64(dst, uint64(m.Clock))
}

// DecodeClockMark reads a mark from its key and value.
func DecodeClockMark(k, v []byte) (ClockMark, error) {
	if len(k) != 1+8 || k[0] != TagClock || len(v) != 2*8 {
		return ClockMark{}, ErrCorrupt
	}
	m := ClockMark{Position: binary.BigEndian.Uint64(k[1:])}
	m.High = int64(binary.LittleEndian.Uint64(v))
	m.Clock = int64(binary.LittleEndian.Uint64(v[8:]))
	if m.Clock >= m.High {
		return ClockMark{}, ErrCorrupt
	}
	return m, nil
}
