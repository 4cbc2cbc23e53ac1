package rows

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

const readBuffer = 64 << 10

// lineReader yields lines of at most limit bytes, and takes lines back: a CSV
// row that turns out to be none returns the lines behind its first.
type lineReader struct {
	in    *bufio.Reader
	limit int
	count int64  // lines read from in
	back  []line // to be read again before in, first one first
}

// line is one line without its end. err is set instead of text for a line that
// cannot be looked at.
type line struct {
	number int64
	text   []byte
	err    error
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, readBuffer), limit: limit}
}

// next returns the next line; the error is io.EOF or that of the input. The
// last line may lack its end. The text belongs to the caller.
func (l *lineReader) next() (line, error) {
	if len(l.back) > 0 {
		ln := l.back[0]
		l.back = l.back[1:]
		return ln, nil
	}
	text, tooLong, err := l.read()
	if err != nil {
		return line{}, err
	}
	l.count++
	ln := line{number: l.count, text: text}
	switch {
	case tooLong:
		ln.text, ln.err = nil, l.tooLong()
	case !utf8.Valid(text):
		ln.text, ln.err = nil, errors.New("the line is not valid UTF-8")
	}
	return ln, nil
}

func (l *lineReader) tooLong() error { return fmt.Errorf("the line is longer than %d bytes", l.limit) }

// unread gives lines back; they come again before anything else.
func (l *lineReader) unread(lines []line) {
	l.back = append(append([]line(nil), lines...), l.back...)
}

// read returns one line without "\n" or "\r\n". Of a line beyond the limit it
// keeps nothing, and reads to its end.
func (l *lineReader) read() (text []byte, tooLong bool, err error) {
	any := false
	for {
		part, err := l.in.ReadSlice('\n')
		any = any || len(part) > 0
		if !tooLong {
			if len(text)+len(trimEnd(part)) > l.limit {
				text, tooLong = nil, true
			} else {
				text = append(text, part...)
			}
		}
		switch {
		case err == nil:
			return trimEnd(text), tooLong, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && any:
			return trimEnd(text), tooLong, nil
		default:
			return nil, false, err
		}
	}
}

func trimEnd(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte{'\n'})
	return bytes.TrimSuffix(b, []byte{'\r'})
}

func blank(b []byte) bool { return len(bytes.TrimSpace(b)) == 0 }

// Lines reads lines of any bytes, each at most as long as its limit.
type Lines struct{ r *lineReader }

// NewLines returns a reader of the lines of r; a limit of 0 means [DefaultMaxLine].
func NewLines(r io.Reader, limit int) *Lines {
	if limit <= 0 {
		limit = DefaultMaxLine
	}
	return &Lines{newLineReader(r, limit)}
}

// Next returns the number of the next line, from 1, and its bytes without the line
// end; they belong to the caller. A line beyond the limit is a *[LineError]: call
// Next again for what follows. At the end it returns io.EOF.
func (l *Lines) Next() (number int64, text []byte, err error) {
	text, tooLong, err := l.r.read()
	if err != nil {
		return 0, nil, err
	}
	l.r.count++
	if tooLong {
		return l.r.count, nil, &LineError{l.r.count, l.r.tooLong()}
	}
	if text == nil {
		text = []byte{}
	}
	return l.r.count, text, nil
}
