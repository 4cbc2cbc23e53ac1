package format

import "encoding/binary"

// A 'c' key and its value are a mark of the clock: after the position was given out, the
// clock was found to be set back. high is the latest reading before, clock the reading
// then. See internal/wallclock.Mark.
//
//	key: 'c', 8 BE position; value: 8 LE high, 8 LE clock (unix ns)

// AppendClockKey appends the key of the mark at position.
func AppendClockKey(dst []byte, position uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, TagClock), position)
}

// AppendClockMark appends the value of a mark.
func AppendClockMark(dst []byte, high, clock int64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(high))
	return binary.LittleEndian.AppendUint64(dst, uint64(clock))
}

// DecodeClockMark reads a mark from its key and value.
func DecodeClockMark(k, v []byte) (position uint64, high, clock int64, err error) {
	if len(k) != 1+8 || k[0] != TagClock || len(v) != 2*8 {
		return 0, 0, 0, ErrCorrupt
	}
	position = binary.BigEndian.Uint64(k[1:])
	high = int64(binary.LittleEndian.Uint64(v))
	clock = int64(binary.LittleEndian.Uint64(v[8:]))
	if clock >= high {
		return 0, 0, 0, ErrCorrupt
	}
	return position, high, clock, nil
}
