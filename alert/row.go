package alert

import (
	"iter"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Row is a row of a table or of a result, with access by the names of columns.
// A name that is not there reads as "" or 0; see [Row.Has]. Rows that triggers
// are given can be changed with Set; copies share their values.
type Row struct {
	h      *header
	values []Value
}

// header is what all rows of a table or a result share.
type header struct {
	columns []Column
	index   map[string]int
}

func newHeader(columns []Column) *header {
	h := &header{columns: columns, index: make(map[string]int, len(columns))}
	for i := range columns {
		if _, ok := h.index[columns[i].Name]; !ok {
			h.index[columns[i].Name] = i
		}
	}
	return h
}

// Columns returns the columns of the row, in order. Do not change the slice.
func (r Row) Columns() []Column {
	if r.h == nil {
		return nil
	}
	return r.h.columns
}

// Len returns the number of values.
func (r Row) Len() int { return len(r.values) }

// At returns the value of the i-th column.
func (r Row) At(i int) Value { return r.values[i] }

// Has reports whether the row has a column called name.
func (r Row) Has(name string) bool {
	if r.h == nil {
		return false
	}
	_, ok := r.h.index[name]
	return ok
}

// Get returns the value of the column called name.
func (r Row) Get(name string) Value {
	if r.h == nil {
		return Value{}
	}
	i, ok := r.h.index[name]
	if !ok {
		return Value{}
	}
	return r.values[i]
}

// Text returns the text in the column called name.
func (r Row) Text(name string) string {
	if !r.Has(name) {
		return ""
	}
	return r.Get(name).String()
}

// Int returns the whole number in the column called name.
func (r Row) Int(name string) int64 { return r.Get(name).Int() }

// Time returns the time in the column called name.
func (r Row) Time(name string) time.Time { return r.Get(name).Time() }

// Set gives the column called name a value that fits it: see the package
// comment about texts that are too long. It is for rows that a trigger is given. A
// column that does not exist or a value that cannot fit is Invalid.
func (r Row) Set(name string, v Value) error {
	if !r.Has(name) {
		return mainstem.Refusef(mainstem.KindInvalid, "alert", "there is no column %s", name)
	}
	i := r.h.index[name]
	fitted, err := fit(v, &r.h.columns[i])
	if err != nil {
		return err
	}
	r.values[i] = fitted
	return nil
}

// All yields names and values in the order of the columns.
func (r Row) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for i := range r.values {
			if !yield(r.h.columns[i].Name, r.values[i]) {
				return
			}
		}
	}
}

// clone returns a row with values of its own.
func (r Row) clone() Row {
	return Row{h: r.h, values: append([]Value(nil), r.values...)}
}
