package rows

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// DefaultMaxLine is the longest line, in bytes, that a [Reader] takes unless
// its options say otherwise.
const DefaultMaxLine = 16 << 20

// Format is how the input is written.
type Format string

// The formats. Auto asks the file's name, then the first byte of the input.
const (
	Auto  Format = "auto"
	JSONL Format = "jsonl"
	CSV   Format = "csv"
)

// ParseFormat reads the name of a format.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case Auto, JSONL, CSV:
		return f, nil
	case "json", "ndjson":
		return JSONL, nil
	}
	return "", fmt.Errorf("the format %q is not one of auto, jsonl, csv", s)
}

// FormatOf returns the format that a file's name says, or Auto.
func FormatOf(name string) Format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".jsonl", ".ndjson", ".json":
		return JSONL
	case ".csv", ".tsv":
		return CSV
	}
	return Auto
}

// Options tell how to read. The zero Options detect the format from the input.
type Options struct {
	Format    Format
	Separator byte  // between CSV fields; 0 means a comma
	MaxLine   int   // bytes in the longest line; 0 means [DefaultMaxLine]
	FromLine  int64 // rows that begin before this line are left out; 0 means none
}

// Row is one line of the input, or one CSV row of several lines.
type Row struct {
	Line   int64          // number of the line it begins on, from 1
	Last   int64          // number of the line it ends on
	Fields map[string]any // string, json.Number, bool, Object or Array; nulls are left out
	// Text is the row as JSON: the very bytes of a JSON line, or an object of the
	// CSV columns in their order, each a string.
	Text []byte
}

// LineError says why a line is not a row. The reader goes on behind it.
type LineError struct {
	Line int64
	Err  error
}

// Error names the line and the reason.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// Reader reads rows.
type Reader struct {
	lines  *lineReader
	decode decoder
	from   int64
}

// decoder makes the next row from lines. Errors other than *LineError end the input.
type decoder interface {
	next(lines *lineReader, from int64) (Row, error)
}

// NewReader returns a reader of the rows of r. It reads ahead to find the format
// and the CSV header; an error says why nothing can be read at all.
func NewReader(r io.Reader, o Options) (*Reader, error) {
	if o.MaxLine <= 0 {
		o.MaxLine = DefaultMaxLine
	}
	if o.Separator == 0 {
		o.Separator = ','
	}
	lines := newLineReader(r, o.MaxLine)
	if err := lines.skipByteOrderMark(); err != nil {
		return nil, err
	}
	if o.Format == Auto || o.Format == "" {
		o.Format = lines.guess()
	}
	rd := &Reader{lines: lines, from: o.FromLine}
	if o.Format == JSONL {
		rd.decode = jsonDecoder{}
		return rd, nil
	}
	header, err := readHeader(lines, o.Separator)
	if err != nil {
		return nil, err
	}
	rd.decode = &csvDecoder{header: header, separator: o.Separator}
	return rd, nil
}

// Next returns the next row, a *[LineError] for a line that is none (call Next
// again for what follows), io.EOF at the end, or the error of the input.
func (r *Reader) Next() (Row, error) {
	return r.decode.next(r.lines, r.from)
}

// guess looks at the first bytes that are not blank: an object or an array is
// JSON, anything else is taken for a CSV header.
func (l *lineReader) guess() Format {
	for n := 1; ; n++ {
		p, _ := l.in.Peek(n)
		if len(p) < n {
			return JSONL // blank as far as one can see
		}
		switch p[n-1] {
		case ' ', '\t', '\r', '\n':
		case '{', '[':
			return JSONL
		default:
			return CSV
		}
	}
}

var byteOrderMarks = []struct {
	mark []byte
	name string
}{
	{[]byte{0xEF, 0xBB, 0xBF}, "UTF-8"},
	{[]byte{0xFF, 0xFE}, "UTF-16"},
	{[]byte{0xFE, 0xFF}, "UTF-16"},
}

func (l *lineReader) skipByteOrderMark() error {
	head, err := l.in.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, m := range byteOrderMarks {
		if !bytes.HasPrefix(head, m.mark) {
			continue
		}
		if m.name != "UTF-8" {
			return fmt.Errorf("the input is %s: convert it to UTF-8 first", m.name)
		}
		_, err := l.in.Discard(len(m.mark))
		return err
	}
	return nil
}
