package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// fields is a JSON object whose fields keep their order.
type fields struct{ buf bytes.Buffer }

// add appends a field whose value is v as JSON.
func (f *fields) add(name string, v any) *fields {
	b, err := marshal(v)
	if err != nil { // strings, numbers and maps of strings: they all encode
		b = []byte("null")
	}
	return f.raw(name, b)
}

// opt is add, unless v is the zero value of its type.
func opt[T comparable](f *fields, name string, v T) {
	var zero T
	if v != zero {
		f.add(name, v)
	}
}

// time appends a time, unless it is zero.
func (f *fields) time(name string, t time.Time) *fields {
	if t.IsZero() {
		return f
	}
	return f.add(name, timeText(t))
}

// bytes appends a byte string: an object or array of JSON as it is, other UTF-8
// as a string, nil as null, and anything else in base64 under name_base64.
func (f *fields) bytes(name string, b []byte) *fields {
	var compact bytes.Buffer
	switch {
	case b == nil:
		return f.raw(name, []byte("null"))
	case !utf8.Valid(b):
		return f.add(name+"_base64", base64.StdEncoding.EncodeToString(b))
	case isDocument(b) && json.Compact(&compact, b) == nil:
		return f.raw(name, compact.Bytes())
	}
	return f.add(name, string(b))
}

// text appends a key or name: a string, or base64 if it is not UTF-8.
func (f *fields) text(name, s string) *fields {
	if !utf8.ValidString(s) {
		return f.add(name+"_base64", base64.StdEncoding.EncodeToString([]byte(s)))
	}
	return f.add(name, s)
}

func (f *fields) raw(name string, value []byte) *fields {
	if f.buf.Len() > 0 {
		f.buf.WriteByte(',')
	}
	f.buf.WriteString(strconv.Quote(name))
	f.buf.WriteByte(':')
	f.buf.Write(value)
	return f
}

func isDocument(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 0 && (b[0] == '{' || b[0] == '[')
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

// object writes f as one line of JSON.
func (m *Main) object(f *fields) error {
	_, err := fmt.Fprintf(m.out, "{%s}\n", f.buf.Bytes())
	return err
}

// line writes columns as one line, separated by tabs.
func (m *Main) line(columns ...string) error {
	_, err := fmt.Fprintln(m.out, strings.Join(columns, "\t"))
	return err
}

// flush hands what was written to the reader now: a follower waits for it.
func (m *Main) flush() error { return m.out.Flush() }

// printable returns b as it may stand in a column of text: as it is, or quoted as
// in Go if it has bytes that would break the line or the terminal.
func printable(b []byte) string {
	s := string(b)
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

func number[T ~int | ~int64 | ~uint64 | ~int32](n T) string { return fmt.Sprint(n) }

// table writes names and values in two aligned columns; empty values are left out.
func (m *Main) table(lines [][2]string) error {
	w := tabwriter.NewWriter(m.out, 0, 0, 2, ' ', 0)
	for _, l := range lines {
		if l[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", l[0], l[1])
		}
	}
	return w.Flush()
}

func sortedNames[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
