package readmodel

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/mainstemdev/mainstem"
)

// cursor is the place of an entry in the order of a query, as the text that [Table.Page] returns:
// URL-safe Base64 of JSON. It holds the key and the values by which the query orders, so a walk
// continues at the same place even if that entry has been removed.
type cursor struct {
	Key   []byte        `json:"k"`
	Order []cursorValue `json:"o,omitempty"`
}

// cursorValue is a [value] in a cursor.
type cursorValue struct {
	There bool       `json:"y,omitempty"`
	Int   int64      `json:"i,omitempty"`
	Uint  uint64     `json:"u,omitempty"`
	Float uint64     `json:"f,omitempty"` // the bits of the number: JSON has no NaN
	Text  []byte     `json:"s,omitempty"` // bytes, since JSON strings must be UTF-8
	Time  cursorTime `json:"t,omitzero"`
}

// cursorTime is a time in a cursor: a text as of time.Time, in UTC, since that text cannot represent
// every zone. It cannot represent years outside 0 to 9999 either: a time in one of them is a list of
// the seconds since 1970 and the nanoseconds.
type cursorTime struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t cursorTime) MarshalJSON() ([]byte, error) {
	u := t.UTC()
	if u.Year() < 0 || u.Year() > 9999 {
		return json.Marshal([]int64{u.Unix(), int64(u.Nanosecond())})
	}
	return u.MarshalJSON()
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *cursorTime) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte("[")) {
		return t.Time.UnmarshalJSON(b)
	}
	var since [2]int64
	err := json.Unmarshal(b, &since)
	t.Time = time.Unix(since[0], since[1]).UTC()
	return err
}

// writeCursor returns the text of a place.
func writeCursor(key string, order []value) string {
	c := cursor{Key: []byte(key)}
	for _, v := range order {
		c.Order = append(c.Order, cursorValue{v.there, v.i, v.u, math.Float64bits(v.f), []byte(v.s), cursorTime{v.t}})
	}
	b, _ := json.Marshal(c) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// readCursor returns the place that writeCursor wrote, for a query that orders by that many fields.
// "" is the place before all entries. A text that does not fit the query is Invalid.
func readCursor(s string, orders int) (*cursor, error) {
	c := &cursor{}
	if s == "" {
		return c, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(b, c)
	}
	if err == nil && len(c.Order) != orders {
		err = fmt.Errorf("it has %d values to order by, and the query has %d", len(c.Order), orders)
	}
	if err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "read model", "query: the cursor %.40q is not one of this query: %w", s, err)
	}
	return c, nil
}

// values returns the values by which the query orders.
func (c *cursor) values() []value {
	out := make([]value, len(c.Order))
	for i, v := range c.Order {
		out[i] = value{v.There, v.Int, v.Uint, math.Float64frombits(v.Float), string(v.Text), v.Time.Time}
	}
	return out
}
