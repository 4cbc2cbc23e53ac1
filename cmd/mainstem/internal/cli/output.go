package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// Fields is a JSON object whose fields keep their order. The zero value is an object without
// fields. It belongs to one goroutine.
type Fields struct{ buf bytes.Buffer }

// Add appends a field whose value is v as JSON.
func (f *Fields) Add(name string, v any) *Fields {
	b, err := marshal(v)
	if err != nil { // strings, numbers and maps of strings: they all encode
		b = []byte("null")
	}
	return f.Raw(name, b)
}

// Opt appends a field as [Fields.Add] does, unless v is the zero value of its type.
func Opt[T comparable](f *Fields, name string, v T) {
	var zero T
	if v != zero {
		f.Add(name, v)
	}
}

// Time appends a time, unless it is zero.
func (f *Fields) Time(name string, t time.Time) *Fields {
	if t.IsZero() {
		return f
	}
	return f.Add(name, TimeText(t))
}

// Bytes appends a byte string: an object or array of JSON as it is, other UTF-8
// as a string, nil as null, and anything else in base64 under name_base64.
func (f *Fields) Bytes(name string, b []byte) *Fields {
	var compact bytes.Buffer
	switch {
	case b == nil:
		return f.Raw(name, []byte("null"))
	case !utf8.Valid(b):
		return f.Add(name+"_base64", base64.StdEncoding.EncodeToString(b))
	case isDocument(b) && json.Compact(&compact, b) == nil:
		return f.Raw(name, compact.Bytes())
	}
	return f.Add(name, string(b))
}

// Text appends a key or name: a string, or base64 if it is not UTF-8.
func (f *Fields) Text(name, s string) *Fields {
	if !utf8.ValidString(s) {
		return f.Add(name+"_base64", base64.StdEncoding.EncodeToString([]byte(s)))
	}
	return f.Add(name, s)
}

// OptText appends a field as [Fields.Text] does, unless s is empty.
func (f *Fields) OptText(name, s string) *Fields {
	if s == "" {
		return f
	}
	return f.Text(name, s)
}

// Texts appends texts by name, unless there are none. Those that are not UTF-8 are in base64, in
// an object of their own under name_base64.
func (f *Fields) Texts(name string, texts map[string]string) *Fields {
	plain, other := map[string]string{}, map[string][]byte{}
	for k, v := range texts {
		if utf8.ValidString(v) {
			plain[k] = v
		} else {
			other[k] = []byte(v)
		}
	}
	if len(plain) > 0 {
		f.Add(name, plain)
	}
	if len(other) > 0 {
		f.Add(name+"_base64", other)
	}
	return f
}

// Raw appends a field whose value is JSON already.
func (f *Fields) Raw(name string, value []byte) *Fields {
	if f.buf.Len() > 0 {
		f.buf.WriteByte(',')
	}
	f.buf.WriteString(strconv.Quote(name))
	f.buf.WriteByte(':')
	f.buf.Write(value)
	return f
}

// Object returns the object as JSON.
func (f *Fields) Object() []byte { return fmt.Appendf(nil, "{%s}", f.buf.Bytes()) }

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

// Object writes f to standard output, as one line of JSON.
func (m *Main) Object(f *Fields) error { return writeObject(m.Out, f) }

// ObjectToStderr writes f to standard error, as one line of JSON.
func (m *Main) ObjectToStderr(f *Fields) error { return writeObject(m.Stderr, f) }

func writeObject(w io.Writer, f *Fields) error {
	_, err := fmt.Fprintf(w, "%s\n", f.Object())
	return err
}

// Deleted writes with --json that the thing which f names was deleted. Without --json the exit
// status says it.
func (m *Main) Deleted(f *Fields) error {
	if !m.Flags.JSON {
		return nil
	}
	return m.Object(f.Add("deleted", true))
}

// Line writes columns to standard output as one line, separated by tabs.
func (m *Main) Line(columns ...string) error {
	_, err := fmt.Fprintln(m.Out, strings.Join(columns, "\t"))
	return err
}

// Flush writes the buffer of standard output now, for a reader who follows.
func (m *Main) Flush() error { return m.Out.Flush() }

// Printable returns b as it may stand in a column of text: as it is, or quoted as
// in Go if it has bytes that would break the line or the terminal.
func Printable[T string | []byte](b T) string {
	s := string(b)
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// Number returns n in decimal digits.
func Number[T ~int | ~int64 | ~uint64 | ~int32](n T) string { return fmt.Sprint(n) }

// Table writes names and values to standard output in two aligned columns; empty values are
// left out.
func (m *Main) Table(lines [][2]string) error {
	w := tabwriter.NewWriter(m.Out, 0, 0, 2, ' ', 0)
	for _, l := range lines {
		if l[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", l[0], l[1])
		}
	}
	return w.Flush()
}

// Columns writes rows below a head to standard output, in columns aligned to the right.
func (m *Main) Columns(head []string, rows [][]string) error {
	w := tabwriter.NewWriter(m.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\t\n", strings.Join(head, "\t"))
	for _, row := range rows {
		fmt.Fprintf(w, "%s\t\n", strings.Join(row, "\t"))
	}
	return w.Flush()
}

// PrintPage calls show with what seq yields, at most limit times if that is not 0, and then
// prints the cursor of the next page, if there is one: the one that show returned last. seq
// must yield up to [OneMore] of limit.
func PrintPage[T any](m *Main, seq iter.Seq2[T, error], limit int, show func(*T) (cursor string, err error)) error {
	n, last := 0, ""
	for e, err := range seq {
		if err != nil {
			return err
		}
		if n++; limit > 0 && n > limit {
			return m.PrintCursor(last)
		}
		if last, err = show(&e); err != nil {
			return err
		}
	}
	return nil
}

// OneMore returns limit and one, which tells whether there is more than limit. 0 is no limit.
func OneMore(limit int) int {
	if limit > 0 && limit < math.MaxInt {
		return limit + 1
	}
	return limit
}

// PrintCursor says where the next page begins.
func (m *Main) PrintCursor(cursor string) error {
	if m.Flags.JSON {
		return m.Object(new(Fields).Text("cursor", cursor))
	}
	if err := m.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(m.Stderr, "more: --cursor %s\n", Printable(cursor))
	return err
}

// SortedNames returns the keys of m in their order.
func SortedNames[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// TimeText returns t as RFC 3339 in UTC, "" for the zero time.
func TimeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
