package omnibus

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"strings"

	"github.com/mainstemdev/mainstem/alert"
)

// A cursor says after which row the next page begins: by the values of the columns
// that the rows are ordered by, the last of which is the row's number. So a page
// costs no more than its rows, and rows that come or go in the meantime shift nothing.
//
//	base64url of: 1 byte version (1), 8 bytes hash of the request, JSON array of the values
const cursorVersion = 1

const maxCursor = 64 << 10 // bytes, encoded

// cursorHash names what a cursor is for, so that no other request takes it.
func cursorHash(t *alert.TableInfo, c condition, order []term) uint64 {
	h := fnv.New64a()
	var b []byte
	for _, s := range []string{t.Database, t.Name, c.text} {
		b = append(append(b, s...), 0)
	}
	for _, o := range order {
		b = append(b, o.column...)
		if o.desc {
			b = append(b, '-')
		}
		b = append(b, 0)
	}
	_, _ = h.Write(b) // never fails
	return h.Sum64()
}

// encodeCursor returns the cursor behind a row, whose values from the first-th on are
// those of the order.
func encodeCursor(hash uint64, row alert.Row, at []int) string {
	b := binary.BigEndian.AppendUint64([]byte{cursorVersion}, hash)
	for i, n := range at {
		c := byte(',')
		if i == 0 {
			c = '['
		}
		b = appendValue(append(b, c), row.At(n), false)
	}
	return base64.RawURLEncoding.EncodeToString(append(b, ']'))
}

// decodeCursor returns the values of a cursor for an order of n columns.
func decodeCursor(text string, hash uint64, n int) ([]any, error) {
	if len(text) > maxCursor {
		return nil, badRequest("the cursor has %d bytes: the limit is %d", len(text), maxCursor)
	}
	p, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	switch {
	case err != nil || len(p) < 9 || p[0] != cursorVersion:
		return nil, badRequest("%.40q is no cursor: give back what the page before had", text)
	case binary.BigEndian.Uint64(p[1:]) != hash:
		return nil, badRequest("the cursor is of another table, filter or order: give the same with each page")
	}
	var values []any
	q := newParser(p[9:])
	err = q.array(func() error {
		v, err := q.value()
		if v == nil && err == nil {
			err = q.errorf("a null")
		}
		values = append(values, v)
		return err
	})
	if err == nil {
		err = q.end()
	}
	if err != nil || len(values) != n {
		return nil, badRequest("%.40q is no cursor: give back what the page before had", text)
	}
	return values, nil
}

// appendAfter appends the condition that a row comes after the one with values.
func appendAfter(b []byte, order []term, values []any) ([]byte, []any) {
	var args []any
	compare := func(i int, sign string) {
		b = append(append(append(b, order[i].column...), ' '), sign...)
		b = append(b, " ?"...)
		args = append(args, values[i])
	}
	sign := func(i int) string {
		if order[i].desc {
			return "<"
		}
		return ">"
	}
	// The first comparison follows from the rest, and lets an index be used.
	compare(0, sign(0)+"=")
	b = append(b, " and ("...)
	for i := range order {
		compare(i, sign(i))
		if i < len(order)-1 {
			b = append(b, " or ("...)
			compare(i, "=")
			b = append(b, " and ("...)
		}
	}
	for range len(order) - 1 {
		b = append(b, "))"...)
	}
	return append(b, ')'), args
}
