package alert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/mainstemdev/mainstem/alert/osql"
)

// A row is stored as the value of a record:
//
//	1 byte    version of the format: 1
//	uvarint   ID of the table
//	then for each column that is not "" or 0, IDs ascending:
//	uvarint   ID of the column * 4 + kind of the value
//	          kind 0: whole number, zigzag varint
//	          kind 1: text, uvarint length and bytes
//	          kind 2: real, 8 bytes, little-endian IEEE 754
//
// The key of the record is the primary key: for each of its columns
//
//	text      's', then its bytes; unless it is the last column, 0x00 is written
//	          as 0x00 0xff, and 0x00 0x00 ends it
//	number    'i', then 8 bytes, big-endian, with the sign inverted
//
// so that keys are in the order of their columns. Adding a column changes no
// stored row: what a row does not have is "" or 0. Nor does dropping one: its ID is
// never given again, and readers pass over it.
const formatVersion = 1

// The kinds of stored values.
const (
	storedInt = iota
	storedText
	storedReal
)

var errCut = errors.New("the row ends too early")

// usualHead is about how many bytes a stored value has besides its text.
const usualHead = 8

// encodeRow appends the stored form of values, one for each column of t.
func encodeRow(b []byte, t *table, values []Value) []byte {
	if b == nil {
		n := 2 * binary.MaxVarintLen64
		for i := range values {
			if !values[i].zero() {
				n += len(values[i].s) + usualHead
			}
		}
		b = make([]byte, 0, n)
	}
	b = append(b, formatVersion)
	b = binary.AppendUvarint(b, t.ID)
	for _, i := range t.byID {
		v := values[i]
		if v.zero() {
			continue
		}
		id := t.Columns[i].ID * 4
		switch v.kind {
		case textValue:
			b = binary.AppendUvarint(b, id+storedText)
			b = binary.AppendUvarint(b, uint64(len(v.s)))
			b = append(b, v.s...)
		case realValue:
			b = binary.AppendUvarint(b, id+storedReal)
			b = binary.LittleEndian.AppendUint64(b, uint64(v.n))
		default:
			b = binary.AppendUvarint(b, id+storedInt)
			b = binary.AppendVarint(b, v.n)
		}
	}
	return b
}

// origin says what a stored row is to a table.
type origin uint8

const (
	foreignRow origin = iota // of another table that had the name before
	ownRow
	newerRow // it has a column that the table got later: a change of the table is on its way
)

// decodeRow fills values, one for each column of t. Columns that t does not have
// (any more) are passed over.
func decodeRow(row []byte, t *table, values []Value) (origin, error) {
	if len(row) == 0 {
		return 0, errCut
	}
	if row[0] != formatVersion {
		return 0, fmt.Errorf("the row has format %d: this version knows %d", row[0], formatVersion)
	}
	id, p, err := cutUvarint(row[1:])
	if err != nil {
		return 0, err
	}
	copy(values, t.zero)
	texts := string(row) // all texts are pieces of one copy
	last := uint64(0)
	for len(p) > 0 {
		var tag uint64
		if tag, p, err = cutUvarint(p); err != nil {
			return 0, err
		}
		if tag>>2 <= last {
			return 0, fmt.Errorf("the column %d comes after column %d", tag>>2, last)
		}
		last = tag >> 2
		var v Value
		if v, p, err = decodeValue(p, tag&3, texts); err != nil {
			return 0, err
		}
		if i, ok := t.column[last]; ok {
			values[i] = conform(v, t.Columns[i].Type)
		}
	}
	switch {
	case id != t.ID:
		return foreignRow, nil
	case last > t.last:
		return newerRow, nil
	}
	return ownRow, nil
}

// decodeValue reads a value. p is the end of a row, and whole a copy of all of it.
func decodeValue(p []byte, kind uint64, whole string) (Value, []byte, error) {
	switch kind {
	case storedInt:
		n, size := binary.Varint(p)
		if size <= 0 {
			return Value{}, nil, errCut
		}
		return Int(n), p[size:], nil
	case storedText:
		n, rest, err := cutUvarint(p)
		if err != nil || n > uint64(len(rest)) {
			return Value{}, nil, errCut
		}
		from := len(whole) - len(rest)
		return Text(whole[from : from+int(n)]), rest[n:], nil
	case storedReal:
		if len(p) < 8 {
			return Value{}, nil, errCut
		}
		return Real(math.Float64frombits(binary.LittleEndian.Uint64(p))), p[8:], nil
	}
	return Value{}, nil, fmt.Errorf("a value has the unknown kind %d", kind)
}

func cutUvarint(p []byte) (uint64, []byte, error) {
	n, size := binary.Uvarint(p)
	if size <= 0 {
		return 0, nil, errCut
	}
	return n, p[size:], nil
}

// encodeKey returns the key of a row's record.
func encodeKey(t *table, values []Value) []byte { return appendKey(nil, t, values) }

func appendKey(b []byte, t *table, values []Value) []byte {
	for n, i := range t.keys {
		v := values[i]
		if !t.Columns[i].Type.Text() {
			b = append(b, 'i')
			b = binary.BigEndian.AppendUint64(b, uint64(v.n)^(1<<63))
			continue
		}
		b = append(b, 's')
		if n == len(t.keys)-1 {
			b = append(b, v.s...)
			continue
		}
		for j := range len(v.s) {
			b = append(b, v.s[j])
			if v.s[j] == 0 {
				b = append(b, 0xff)
			}
		}
		b = append(b, 0, 0)
	}
	return b
}

// decodeKey fills the values of the primary key from a record's key.
func decodeKey(p []byte, t *table, values []Value) error {
	for n, i := range t.keys {
		if len(p) == 0 {
			return errCut
		}
		kind := p[0]
		p = p[1:]
		switch {
		case kind == 'i' && !t.Columns[i].Type.Text():
			if len(p) < 8 {
				return errCut
			}
			values[i] = Int(int64(binary.BigEndian.Uint64(p) ^ (1 << 63)))
			p = p[8:]
		case kind == 's' && t.Columns[i].Type.Text() && n == len(t.keys)-1:
			values[i] = Text(string(p))
			p = nil
		case kind == 's' && t.Columns[i].Type.Text():
			s, rest, err := cutText(p)
			if err != nil {
				return err
			}
			values[i], p = Text(s), rest
		default:
			return fmt.Errorf("the key has a part of kind %q where the column %s is", kind, t.Columns[i].Name)
		}
	}
	if len(p) > 0 {
		return fmt.Errorf("the key has %d bytes too many", len(p))
	}
	return nil
}

// cutText reads a text that is not the last column of a key.
func cutText(p []byte) (string, []byte, error) {
	var s []byte
	for i := 0; i+1 < len(p); i++ {
		switch {
		case p[i] != 0:
			s = append(s, p[i])
		case p[i+1] == 0xff:
			s = append(s, 0)
			i++
		case p[i+1] == 0:
			return string(s), p[i+2:], nil
		default:
			return "", nil, fmt.Errorf("the byte %#x follows a zero in a key", p[i+1])
		}
	}
	return "", nil, errCut
}

// keyType reports whether a column of type t can be part of a primary key.
func keyType(t osql.Type) bool { return t != osql.Real && t != osql.Incr }
