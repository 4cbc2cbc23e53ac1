package omnibus

import (
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem/alert"
)

// maxKeyReadings bounds in how many ways a key field of several columns is read, each
// of which is as long as the field.
const maxKeyReadings = 64

// keyCondition returns the condition for the row of t with a key field: for tables
// whose rows are numbered and name their server, "<Serial>:<ServerName>", else the
// values of the primary key joined by ":". ok is false if no row can have it.
func keyCondition(t *alert.TableInfo, field string) (text string, ok bool) {
	var keys []*alert.Column
	var serial, server *alert.Column
	for i := range t.Columns {
		c := &t.Columns[i]
		switch {
		case c.Type == typeIncr && serial == nil:
			serial = c
		case c.Name == "ServerName":
			server = c
		}
		if c.PrimaryKey {
			keys = append(keys, c)
		}
	}
	if serial != nil && server != nil {
		keys = []*alert.Column{serial, server}
		if number, name, ok := strings.Cut(field, ":"); ok {
			return allEqual(keys, []string{number, name})
		}
		return "", false
	}
	var readings []string
	tried := 0
	splits(field, len(keys), nil, func(parts []string) bool {
		if text, ok := allEqual(keys, parts); ok {
			readings = append(readings, "("+text+")")
		}
		tried++
		return tried < maxKeyReadings
	})
	return strings.Join(readings, " or "), len(readings) > 0
}

// splits calls do with the ways to read s as n parts joined by ":", until it returns false.
func splits(s string, n int, before []string, do func([]string) bool) bool {
	if n <= 1 {
		return n < 1 || do(append(before, s))
	}
	for i := range len(s) {
		if s[i] == ':' && !splits(s[i+1:], n-1, append(before, s[:i]), do) {
			return false
		}
	}
	return true
}

func allEqual(columns []*alert.Column, values []string) (string, bool) {
	var b []byte
	for i, c := range columns {
		if i > 0 {
			b = append(b, " and "...)
		}
		b = append(append(b, c.Name...), " = "...)
		if c.Type.Text() {
			b = appendQuoted(b, values[i])
			continue
		}
		n, err := strconv.ParseInt(values[i], 10, 64)
		if err != nil {
			return "", false
		}
		b = appendInt(b, n)
	}
	return string(b), true
}

// appendQuoted appends s as a string of SQL.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '\'')
	for i := range len(s) {
		if s[i] == '\'' {
			b = append(b, '\'')
		}
		b = append(b, s[i])
	}
	return append(b, '\'')
}
