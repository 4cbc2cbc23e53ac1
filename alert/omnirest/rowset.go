package omnirest

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// split returns the columns and values of a row, in the order of the columns' names.
func split(values map[string]any) ([]string, []any) {
	columns := make([]string, 0, len(values))
	for name := range values {
		columns = append(columns, name)
	}
	slices.Sort(columns)
	row := make([]any, len(columns))
	for i, name := range columns {
		row[i] = values[name]
	}
	return columns, row
}

// appendRowset appends rows as POST and PATCH take them. The types of the columns are
// those of the values, which must agree from row to row.
func appendRowset(b []byte, columns []string, rows [][]any) ([]byte, error) {
	if len(columns) == 0 || len(rows) == 0 {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "omnirest", "there are no columns or no rows to send")
	}
	types := make([]string, len(columns))
	b = append(b, `{"rowset":{"coldesc":[`...)
	for i, name := range columns {
		for n, row := range rows {
			if len(row) != len(columns) {
				return nil, mainstem.Refusef(mainstem.KindInvalid, "omnirest", "row %d has %d values for %d columns", n+1, len(row), len(columns))
			}
			t := typeOf(row[i])
			if t == "" || types[i] != "" && t != types[i] {
				return nil, mainstem.Refusef(mainstem.KindInvalid, "omnirest", "row %d, column %s: a value of type %T: want strings, numbers, bools or times, and the same in each row", n+1, name, row[i])
			}
			types[i] = t
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"type":"`...), types[i]...), `","name":`...)
		b = append(rowjson.AppendString(b, name), '}')
	}
	b = append(b, `],"rows":[`...)
	for n, row := range rows {
		if n > 0 {
			b = append(b, ',')
		}
		for i, name := range columns {
			c := byte(',')
			if i == 0 {
				c = '{'
			}
			b = append(rowjson.AppendString(append(b, c), name), ':')
			b = appendValue(b, row[i])
		}
		b = append(b, '}')
	}
	return append(b, `],"affectedRows":0}}`...), nil
}

// typeOf returns the name of the type that a value has on the wire, "" if none.
func typeOf(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case int, int64, int32, uint32, bool:
		return "integer"
	case time.Time:
		return "utc"
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return "real"
		}
	}
	return ""
}

// appendValue appends a value that has a type.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return rowjson.AppendString(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case int32:
		return strconv.AppendInt(b, int64(v), 10)
	case uint32:
		return strconv.AppendInt(b, int64(v), 10)
	case bool:
		if v {
			return append(b, '1')
		}
		return append(b, '0')
	case time.Time:
		if v.IsZero() {
			return append(b, '0')
		}
		return strconv.AppendInt(b, v.Unix(), 10)
	case float64:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	}
	return append(b, "null"...)
}
