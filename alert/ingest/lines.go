package ingest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// errTooLong is the reason of a line that is too long.
var errTooLong = errors.New("too long")

// readError says that the file could not be read: it is not about a line.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

func readFailed(err error) bool {
	var e *readError
	return errors.As(err, &e)
}

// lineReader reads lines of bounded length, and says which they are.
type lineReader struct {
	r     *bufio.Reader
	max   int
	line  int64 // of the last line that was read, from 1
	bytes int64
	buf   []byte
	err   error // that ended the reading
}

func newLineReader(r io.Reader, limit int) *lineReader {
	l := &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: limit}
	if bom, err := l.r.Peek(3); err == nil && string(bom) == "\xef\xbb\xbf" {
		_, _ = l.r.Discard(3) // they were just seen
	}
	return l
}

// next returns the next line without its end, or io.EOF. It is good until next is
// called again. Of a line that is too long the rest is passed over.
func (l *lineReader) next() ([]byte, error) {
	if l.err != nil {
		return nil, l.err
	}
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		l.bytes += int64(len(part))
		if len(l.buf)+len(part) > l.max+2 { // with its end
			long = true
		} else {
			l.buf = append(l.buf, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			l.err = &readError{err}
			return nil, l.err
		}
		if err != nil && len(l.buf) == 0 && !long {
			l.err = io.EOF
			return nil, l.err
		}
		break
	}
	l.line++
	line := bytes.TrimSuffix(bytes.TrimSuffix(l.buf, []byte("\n")), []byte("\r"))
	if long || len(line) > l.max {
		return nil, fmt.Errorf("the line is %w: the limit is %d bytes", errTooLong, l.max)
	}
	return line, nil
}
