package syslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// The limits of a stream.
const (
	DefaultMaxMessage = 64 << 10 // bytes
	MinMaxMessage     = 480      // what RFC 5424 asks every receiver to take
	MaxFrame          = 16 << 20 // bytes that a sender may announce
)

// ErrFraming is the error of a stream that is no syslog: there is no way to find the
// next message.
var ErrFraming = errors.New("the stream is not framed as RFC 6587 has it")

// Reader takes messages out of a stream. Each may come in either way of RFC 6587: with
// its length before it, or with a line feed (or a zero byte) behind it.
type Reader struct {
	r         *bufio.Reader
	max       int
	waiting   func(partly bool)
	buf       []byte
	cut       bool
	announced bool // waiting knows that a message has begun
	known     bool // the first message was one of syslog
}

// NewReader returns a reader of messages of at most limit bytes, 0 means
// [DefaultMaxMessage]. If waiting is not nil it is called before the stream is read
// from: with false while no part of a message is there, and with true once for a
// message of which there is a part. That is for deadlines.
func NewReader(r io.Reader, limit int, waiting func(partly bool)) *Reader {
	if limit <= 0 {
		limit = DefaultMaxMessage
	}
	s := &Reader{max: limit, waiting: waiting}
	if waiting == nil {
		s.waiting = func(bool) {}
	}
	s.r = bufio.NewReaderSize(&notifier{r, s}, 32<<10)
	return s
}

// notifier says when the stream is read from.
type notifier struct {
	io.Reader
	s *Reader
}

// Read calls waiting, then reads.
func (n *notifier) Read(p []byte) (int, error) {
	if partly := n.s.buf != nil; !partly || !n.s.announced {
		n.s.announced = partly
		n.s.waiting(partly)
	}
	return n.Reader.Read(p)
}

// Next returns the next message, and whether its end was cut off because it is too
// long. It is good until Next is called again. At the end of the stream it is io.EOF; a
// last message without a line feed counts. A message that is not complete is
// io.ErrUnexpectedEOF; a length that cannot be is [ErrFraming], and so is a stream that
// begins as an HTTP request or as TLS does.
func (s *Reader) Next() (message []byte, cut bool, err error) {
	for {
		s.buf, s.cut, s.announced = nil, false, false
		first, err := s.r.ReadByte()
		if err != nil {
			return nil, false, err
		}
		s.buf = []byte{}
		counted := first >= '1' && first <= '9'
		switch {
		case counted:
			err = s.counted(int(first - '0'))
		case first == handshake && !s.known:
			err = fmt.Errorf("%w: it begins as TLS does", ErrFraming)
		case first == '\n' || first == 0 || first == '\r' || first == ' ':
			continue
		default:
			s.buf = append(s.buf, first)
			err = s.delimited()
		}
		if err != nil {
			return nil, false, err
		}
		if !s.known {
			if err := foreign(s.buf, counted, s.cut); err != nil {
				return nil, false, err
			}
		}
		if len(s.buf) > 0 {
			s.known = true
			return s.buf, s.cut, nil
		}
	}
}

// counted reads a message whose length begins with the digit n.
func (s *Reader) counted(n int) error {
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return early(err)
		}
		if c == ' ' {
			break
		}
		n = n*10 + int(c-'0')
		if c < '0' || c > '9' || n > MaxFrame {
			return fmt.Errorf("%w: a length of more than %d, or no length", ErrFraming, MaxFrame)
		}
	}
	keep := min(n, s.max)
	// A length is only a promise: memory grows with what comes.
	var b bytes.Buffer
	if _, err := io.CopyN(&b, s.r, int64(keep)); err != nil {
		return early(err)
	}
	s.buf, s.cut = b.Bytes(), keep < n
	_, err := io.CopyN(io.Discard, s.r, int64(n-keep))
	return early(err)
}

// delimited reads up to a line feed or a zero byte.
func (s *Reader) delimited() error {
	for {
		c, err := s.r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case c == '\n' || c == 0:
			s.buf = bytes.TrimSuffix(s.buf, []byte("\r"))
			return nil
		case len(s.buf) == s.max:
			s.cut = true
		default:
			s.buf = append(s.buf, c)
		}
	}
}

// early is the error of a stream that ends within a message.
func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
