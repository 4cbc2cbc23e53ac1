package rows

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
)

// csvDecoder reads rows whose fields are named by the header. It finds where a
// row ends by itself, so that a row is never larger than the line limit and a
// stray quote cannot swallow the file; encoding/csv then reads the row.
type csvDecoder struct {
	header    []string
	separator byte
}

func (d *csvDecoder) next(lines *lineReader, from int64) (Row, error) {
	for {
		part, err := nextRecord(lines, d.separator)
		if err != nil {
			var bad *LineError
			if errors.As(err, &bad) && bad.Line < from {
				continue
			}
			return Row{}, err
		}
		first, last := part[0].number, part[len(part)-1].number
		values, err := parseRecord(part, d.separator)
		if err != nil {
			lines.unread(part[1:]) // whether the row itself is left out or not
		}
		switch {
		case first < from:
			continue
		case err != nil:
			return Row{}, &LineError{first, err}
		case len(values) != len(d.header):
			return Row{}, &LineError{first, fmt.Errorf("the row has %d fields, the header has %d", len(values), len(d.header))}
		}
		return d.row(first, last, values), nil
	}
}

func (d *csvDecoder) row(first, last int64, values []string) Row {
	fields := make(map[string]any, len(values))
	var text bytes.Buffer
	text.WriteByte('{')
	for i, v := range values {
		fields[d.header[i]] = v
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(compactJSON(d.header[i]))
		text.WriteByte(':')
		text.WriteString(compactJSON(v))
	}
	text.WriteByte('}')
	return Row{Line: first, Last: last, Fields: fields, Text: text.Bytes()}
}

// readHeader reads the first row, which names the fields.
func readHeader(lines *lineReader, separator byte) ([]string, error) {
	part, err := nextRecord(lines, separator)
	if errors.Is(err, io.EOF) {
		return nil, nil // an empty file has no rows either
	}
	if err != nil {
		return nil, fmt.Errorf("the CSV header: %w", err)
	}
	names, err := parseRecord(part, separator)
	if err != nil {
		return nil, fmt.Errorf("the CSV header: %w", err)
	}
	seen := make(map[string]int, len(names))
	for i, n := range names {
		if n == "" {
			return nil, fmt.Errorf("the CSV header: column %d has no name", i+1)
		}
		if j, ok := seen[n]; ok {
			return nil, fmt.Errorf("the CSV header: columns %d and %d are both called %q", j+1, i+1, n)
		}
		seen[n] = i
	}
	return names, nil
}

// nextRecord returns the lines of the next row that is not blank. A row whose
// quote does not close within the limit makes only its first line bad.
func nextRecord(lines *lineReader, separator byte) ([]line, error) {
	var part []line
	size, open := 0, false
	for {
		ln, err := lines.next()
		switch {
		case errors.Is(err, io.EOF) && open, err == nil && open && (ln.err != nil || size+len(ln.text) > lines.limit):
			if err == nil {
				part = append(part, ln)
			}
			lines.unread(part[1:])
			return nil, &LineError{part[0].number, fmt.Errorf("a quote is opened and not closed within %d bytes", lines.limit)}
		case err != nil:
			return nil, err
		case ln.err != nil:
			return nil, &LineError{ln.number, ln.err}
		case len(part) == 0 && blank(ln.text):
			continue
		}
		part = append(part, ln)
		size += len(ln.text) + 1
		if open = quoteOpen(ln.text, open, separator); !open {
			return part, nil
		}
	}
}

// quoteOpen reports whether a quoted field is open at the end of text, given
// whether one was at its start. A quote where none may be ends the row: reading
// it then names the mistake.
func quoteOpen(text []byte, open bool, separator byte) bool {
	fieldStart := !open
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case !open && c == '"' && fieldStart:
			open, fieldStart = true, false
		case !open && c == '"':
			return false
		case !open:
			fieldStart = c == separator
		case c != '"':
		case i+1 < len(text) && text[i+1] == '"':
			i++
		case i+1 < len(text) && text[i+1] != separator:
			return false
		default:
			open = false
		}
	}
	return open
}

func parseRecord(part []line, separator byte) ([]string, error) {
	var text []byte
	for i := range part {
		text = append(text, part[i].text...)
		if bytes.HasSuffix(text, []byte{'\r'}) {
			text = append(text, '\r') // encoding/csv takes one for a part of the line's end
		}
		text = append(text, '\n')
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.Comma = rune(separator)
	r.FieldsPerRecord = -1
	values, err := r.Read()
	var p *csv.ParseError
	if errors.As(err, &p) {
		return nil, fmt.Errorf("not CSV: %w", p.Err)
	}
	return values, err
}
