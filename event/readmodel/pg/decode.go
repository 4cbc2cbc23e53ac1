package readmodelpg

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/uuid"
)

// asText reports whether the column is read as text, because the driver has no Go type for it.
func (c *column) asText() bool {
	return c.typ.family == famUUID || c.typ.family == famJSON || strings.HasPrefix(c.typ.name, "numeric")
}

// selected returns the column as an item of a list of SELECT.
func (c *column) selected() string {
	if c.asText() {
		return quote(c.name) + "::text"
	}
	return quote(c.name)
}

// place returns a new destination of Scan for the column: a pointer to a pointer or a slice, so
// that NULL is nil.
func (c *column) place() any {
	f := c.typ.family
	switch {
	case f == famList:
		return listPlace(c.typ.elem)
	case f == famBytes:
		return new([]byte)
	case f == famText, c.asText():
		return new(*string)
	case f == famFloat:
		return new(*float64)
	case f == famBool:
		return new(*bool)
	case f == famTime:
		return new(*time.Time)
	}
	return new(*int64)
}

// listPlace is place for a list.
func listPlace(elem family) any {
	switch elem {
	case famInt, famUint:
		return new([]int64)
	case famFloat:
		return new([]float64)
	case famBool:
		return new([]bool)
	case famTime:
		return new([]time.Time)
	}
	return new([]string)
}

// decode returns the value that was read into a place, in the type that encode returns; nil for
// NULL. A list is a slice of int64, float64, bool, time.Time or string.
func (c *column) decode(place any) (any, error) {
	v := reflect.ValueOf(place).Elem()
	if v.IsNil() {
		return nil, nil
	}
	if c.typ.isList() {
		return v.Interface(), nil
	}
	switch x := v.Elem().Interface().(type) {
	case string:
		return c.parse(x)
	case int64:
		if c.typ.family == famUint {
			return parseUint(strconv.FormatInt(x, 10))
		}
		return x, nil
	case time.Time:
		return x.UTC(), nil
	default:
		return x, nil
	}
}

// parse decodes a value that was read as text.
func (c *column) parse(s string) (any, error) {
	switch c.typ.family {
	case famUint:
		return parseUint(whole(s))
	case famInt:
		return strconv.ParseInt(whole(s), 10, 64)
	}
	return s, nil
}

// whole returns a number without the zeros after the point that a column of type numeric(20,2) adds
// to it.
func whole(s string) string {
	if digits, zeros, ok := strings.Cut(s, "."); ok && strings.Trim(zeros, "0") == "" {
		return digits
	}
	return s
}

func parseUint(s string) (any, error) { return strconv.ParseUint(s, 10, 64) }

// assign sets a field to the value v of decode.
func (c *column) assign(field reflect.Value, v any) error {
	if v == nil {
		return nil // the field of a new entry is zero
	}
	if c.pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	switch c.typ.family {
	case famJSON:
		return json.Unmarshal([]byte(v.(string)), field.Addr().Interface())
	case famBytes:
		field.SetBytes(v.([]byte))
		return nil
	case famList:
		list := reflect.ValueOf(v)
		field.Set(reflect.MakeSlice(field.Type(), list.Len(), list.Len()))
		for i := range list.Len() {
			if err := assignScalar(c.typ.elem, field.Index(i), list.Index(i).Interface()); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		return nil
	}
	return assignScalar(c.typ.family, field, v)
}

// assignScalar sets a field, or an element of a list, to a value. A value that overflows it is an
// error.
func assignScalar(f family, field reflect.Value, v any) error {
	fits := true
	switch f {
	case famInt:
		fits = !field.OverflowInt(v.(int64))
		field.SetInt(v.(int64))
	case famUint:
		u, ok := v.(uint64)
		if n, signed := v.(int64); signed {
			u, ok = uint64(n), n >= 0
		}
		fits = ok && !field.OverflowUint(u)
		field.SetUint(u)
	case famFloat:
		field.SetFloat(v.(float64))
	case famText:
		field.SetString(v.(string))
	case famBool:
		field.SetBool(v.(bool))
	case famTime:
		field.Set(reflect.ValueOf(v.(time.Time).UTC()))
	case famUUID:
		if field.Kind() == reflect.String {
			field.SetString(v.(string))
			return nil
		}
		id, err := uuid.Parse(v.(string))
		if err != nil {
			return err
		}
		field.Set(reflect.ValueOf([16]byte(id)).Convert(field.Type()))
	}
	if !fits {
		return fmt.Errorf("%v does not fit a %s", v, field.Type())
	}
	return nil
}

// row is an entry that was read.
type row[T any] struct {
	value  T
	values []any // of decode, one for each column
}

// scanner is a row of a result.
type scanner interface{ Scan(dest ...any) error }

// scan reads an entry. The destinations in more come before its columns. A value that the driver or
// the field cannot hold is Corrupt.
func scan[T any](l *layout, rows scanner, more ...any) (r row[T], err error) {
	places := make([]any, len(l.columns))
	for i, c := range l.columns {
		places[i] = c.place()
	}
	if err := rows.Scan(append(more, places...)...); err != nil {
		var wrong pgx.ScanArgError
		if errors.As(err, &wrong) && wrong.ColumnIndex >= len(more) {
			err = l.columns[wrong.ColumnIndex-len(more)].corrupt(l, wrong.Err)
		}
		return r, err
	}
	v := reflect.ValueOf(&r.value).Elem()
	for v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	r.values = make([]any, len(l.columns))
	for i, c := range l.columns {
		if r.values[i], err = c.decode(places[i]); err == nil {
			err = c.assign(v.FieldByIndex(c.field.Index), r.values[i])
		}
		if err != nil {
			return r, c.corrupt(l, err)
		}
	}
	return r, nil
}

// corrupt returns the error about a value of the column that the field cannot hold.
func (c *column) corrupt(l *layout, err error) error {
	return mainstem.Errorf(mainstem.KindCorrupt, op, "column %s holds what field %s of %s cannot: %w", c.name, c.field.Name, l.typ, err)
}

// encode returns the values of an entry, one for each column. A value that PostgreSQL cannot hold
// is Invalid.
func (l *layout) encode(entry any) ([]any, error) {
	v := reflect.ValueOf(entry)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "the entry is nil")
	}
	values := make([]any, len(l.columns))
	for i, c := range l.columns {
		x, err := c.encode(v.FieldByIndex(c.field.Index))
		if err != nil {
			return nil, fieldError(l.typ, c.field.Name, "%w", err)
		}
		values[i] = x
	}
	return values, nil
}
