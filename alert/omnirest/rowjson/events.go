package rowjson

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/mainstemdev/mainstem"
)

// Event is one of a stream of server-sent events. Its bytes are lent until the next one.
type Event struct {
	Name string // "message" if the stream says nothing
	ID   string // of this event, "" if it has none
	Data []byte
}

// Events reads a stream of server-sent events (text/event-stream). It belongs to one
// goroutine.
type Events struct {
	r     *bufio.Reader
	limit int
	line  []byte
	data  []byte
	begun bool // the mark that may stand before a text was looked for
	cr    bool // the line before ended with CR: an LF that follows belongs to it
}

// NewEvents returns a reader of src. An event may have limit bytes of data, and a line
// as many and its name; 0 means [DefaultMaxValue].
func NewEvents(src io.Reader, limit int) *Events {
	if limit <= 0 {
		limit = DefaultMaxValue
	}
	return &Events{r: bufio.NewReader(src), limit: limit}
}

// maxField is what a line may have besides data: the name of its field.
const maxField = 64

// Next returns the next event that has data; comments and everything unknown are passed
// over. At the end of the stream it returns io.EOF; an event that is not complete there
// is none. An event beyond the limit is Invalid, a stream that breaks off Unavailable.
func (s *Events) Next() (Event, error) {
	e := Event{Name: "message"}
	s.data = s.data[:0]
	some := false
	for {
		if err := s.next(); err != nil {
			return Event{}, err
		}
		if len(s.line) == 0 {
			if some {
				e.Data = bytes.TrimSuffix(s.data, []byte("\n"))
				return e, nil
			}
			e = Event{Name: "message"} // without data it is none
			continue
		}
		field, value, _ := bytes.Cut(s.line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.Name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				e.ID = string(value)
			}
		case "data":
			some = true
			if len(s.data)+len(value) > s.limit {
				return Event{}, s.tooLong()
			}
			s.data = append(append(s.data, value...), '\n')
		}
	}
}

func (s *Events) tooLong() error {
	return mainstem.Errorf(mainstem.KindInvalid, "rowjson", "an event has more than %d bytes", s.limit)
}

// next reads a line into s.line, without its end: CR, LF or both.
func (s *Events) next() error {
	if !s.begun {
		s.begun = true
		if mark, err := s.r.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
			_, _ = s.r.Discard(3) // they were just seen
		}
	}
	s.line = s.line[:0]
	for {
		c, err := s.r.ReadByte()
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		if err != nil {
			var e *mainstem.Error
			if errors.As(err, &e) {
				return err
			}
			return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "rowjson", Err: err}
		}
		after := s.cr
		s.cr = c == '\r'
		switch {
		case c == '\n' && after:
			continue // the second half of an end
		case c == '\n' || c == '\r':
			return nil
		case len(s.line) >= s.limit+maxField:
			return s.tooLong()
		}
		s.line = append(s.line, c)
	}
}
