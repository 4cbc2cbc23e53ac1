package omnibus

import (
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// rowset writes the answer to a query: what it is of, the columns, the rows, and how
// many they are, which only its end knows.
type rowset struct {
	out     *output
	keys    []byte // `"Name":` of each column, one after the other
	ends    []int  // of each in keys
	boolean []bool
	rows    int64
}

// begin writes what comes before the rows. database is empty for what is of no table.
func (s *rowset) begin(out *output, server, database, table string, columns []alert.Column) {
	s.out = out
	b := *out.buf
	b = append(b, `{"rowset":{"osname":`...)
	b = rowjson.AppendString(b, server)
	if database != "" {
		b = append(b, `,"dbname":`...)
		b = rowjson.AppendString(b, database)
		b = append(b, `,"tblname":`...)
		b = rowjson.AppendString(b, table)
	}
	b = append(b, `,"coldesc":[`...)
	for i := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendColumn(b, &columns[i])
		s.key(&columns[i])
	}
	*out.buf = append(b, `],"rows":[`...)
}

// key notes a column.
func (s *rowset) key(c *alert.Column) {
	s.keys = append(rowjson.AppendString(s.keys, c.Name), ':')
	s.ends = append(s.ends, len(s.keys))
	s.boolean = append(s.boolean, c.Type == typeBoolean)
}

func appendColumn(b []byte, c *alert.Column) []byte {
	b = append(b, `{"name":`...)
	b = rowjson.AppendString(b, c.Name)
	b = append(b, `,"type":"`...)
	if int(c.Type) < len(jsonTypes) {
		b = append(b, jsonTypes[c.Type]...)
	}
	b = append(b, `","size":`...)
	b = appendInt(b, int64(c.Size))
	return append(b, '}')
}

// row writes a row, and sends what is ready if that is enough.
func (s *rowset) row(row alert.Row) error {
	b := *s.out.buf
	if s.rows > 0 {
		b = append(b, ',')
	}
	s.rows++
	b = append(b, '\n')
	*s.out.buf = s.appendRow(b, row)
	return s.out.filled()
}

// appendRow appends the columns of a row that the set has: those behind them are not shown.
func (s *rowset) appendRow(b []byte, row alert.Row) []byte {
	from := 0
	for i, end := range s.ends {
		c := byte(',')
		if i == 0 {
			c = '{'
		}
		b = append(b, c)
		b = append(b, s.keys[from:end]...)
		from = end
		b = appendValue(b, row.At(i), s.boolean[i])
	}
	if len(s.ends) == 0 {
		b = append(b, '{')
	}
	return append(b, '}')
}

// end writes what comes after the rows. cursor is where the next page begins, "" if
// there is none.
func (s *rowset) end(affected int64, cursor string) {
	b := *s.out.buf
	b = append(b, `],"affectedRows":`...)
	b = appendInt(b, affected)
	if cursor != "" {
		b = append(b, `,"cursor":`...)
		b = rowjson.AppendString(b, cursor)
	}
	*s.out.buf = append(b, "}}\n"...)
}
