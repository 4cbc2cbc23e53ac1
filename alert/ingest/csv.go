package ingest

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxRecordLines bounds the lines that one record may go on for, in quotes.
const maxRecordLines = 1000

var errNotClosed = errors.New(`a quote (") is not closed`)

// csvReader reads records of CSV as RFC 4180 has it, with a header. A quote that is
// not closed spoils one line, not the rest of the file.
type csvReader struct {
	lines  *lineReader
	comma  rune
	header []string

	pending []csvLine // that were read ahead, one behind the other
	first   int64     // the number of the first of them
	chunk   bytes.Reader
	buffer  *bufio.Reader
}

// csvLine is a line, or why it is none.
type csvLine struct {
	text []byte
	err  error // it is too long
}

func newCSVReader(r io.Reader, comma rune, limit int) *csvReader {
	return &csvReader{lines: newLineReader(r, limit), comma: comma, buffer: bufio.NewReaderSize(nil, 4096)}
}

// readHeader reads the first line that is not empty.
func (c *csvReader) readHeader() error {
	line, _, fields, err := c.record()
	if errors.Is(err, io.EOF) {
		return errors.New("there is no header")
	}
	if err != nil {
		return fmt.Errorf("line %d, the header: %w", line, err)
	}
	seen := map[string]bool{}
	for i, f := range fields {
		fields[i] = strings.TrimSpace(f)
		switch {
		case fields[i] == "":
			return fmt.Errorf("line %d, the header: column %d has no name", line, i+1)
		case seen[fields[i]]:
			return fmt.Errorf("line %d, the header: %.60q is there twice", line, fields[i])
		}
		seen[fields[i]] = true
	}
	if len(fields) > MaxFields {
		return fmt.Errorf("line %d, the header: %d columns: the limit is %d", line, len(fields), MaxFields)
	}
	c.header = fields
	return nil
}

// next adds the fields of the next record to e, and returns the lines from which to
// which it goes.
func (c *csvReader) next(e *Event) (from, to int64, err error) {
	from, to, fields, err := c.record()
	if err != nil {
		return from, to, err
	}
	if len(fields) != len(c.header) {
		return from, to, fmt.Errorf("%d fields: the header has %d", len(fields), len(c.header))
	}
	for i, name := range c.header {
		if fields[i] != "" {
			e.Set(name, fields[i])
		}
	}
	return from, to, nil
}

// record returns the next record that is not empty, with the numbers of its first and
// last line.
func (c *csvReader) record() (from, to int64, fields []string, err error) {
	for {
		line, number, err := c.line(0)
		if err != nil {
			c.drop(min(1, len(c.pending)))
			return number, number, nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			c.drop(1)
			continue
		}
		n, text := 1, line
		for quotes := bytes.Count(text, []byte{'"'}); quotes%2 == 1; n++ {
			more, _, err := c.line(n)
			if readFailed(err) {
				return number, number, nil, err // the rest of the record is not known
			}
			if n == maxRecordLines || err != nil || len(text)+len(more) > c.lines.max {
				c.drop(1)
				return number, number, nil, errNotClosed
			}
			text = append(append(bytes.Clone(text), '\n'), more...)
			quotes += bytes.Count(more, []byte{'"'})
		}
		fields, err = c.split(text)
		if err != nil && n > 1 { // the quote belongs to none of the lines that follow
			n, err = 1, errNotClosed
		}
		c.drop(n)
		return number, number + int64(n) - 1, fields, err
	}
}

// split splits one record.
func (c *csvReader) split(text []byte) ([]string, error) {
	c.chunk.Reset(text)
	c.buffer.Reset(&c.chunk)
	r := csv.NewReader(c.buffer)
	r.Comma, r.FieldsPerRecord = c.comma, -1
	fields, err := r.Read()
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return nil, fmt.Errorf("byte %d: %w", parse.Column, parse.Err)
	}
	return fields, err
}

// line returns the i-th line that is not done with, and its number. A line that is too long
// counts, and is an error each time; other errors end the file.
func (c *csvReader) line(i int) ([]byte, int64, error) {
	for len(c.pending) <= i {
		line, err := c.lines.next()
		if err != nil && !errors.Is(err, errTooLong) {
			return nil, c.lines.line, err
		}
		if len(c.pending) == 0 {
			c.first = c.lines.line
		}
		c.pending = append(c.pending, csvLine{bytes.Clone(line), err})
	}
	return c.pending[i].text, c.first + int64(i), c.pending[i].err
}

// drop is done with n lines.
func (c *csvReader) drop(n int) {
	c.pending = c.pending[n:]
	c.first += int64(n)
}
