package rowjson

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mainstemdev/mainstem"
)

// all returns the events of a stream, and what ended it.
func all(s *Events) (events []string, err error) {
	for {
		e, err := s.Next()
		if err != nil {
			return events, err
		}
		events = append(events, fmt.Sprintf("%s %s %q", e.Name, e.ID, e.Data))
	}
}

func TestEvents(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "[]",
		"data: x\n\n":             `[message  "x"]`,
		"\xef\xbb\xbfdata: x\n\n": `[message  "x"]`,
		": hello\n\nid: 7\nevent: change\ndata: {\"a\":1}\n\n:\n\n": `[change 7 "{\"a\":1}"]`,
		"data:x\rdata:  y\r\rdata\r\n\r\n":                          `[message  "x\n y" message  ""]`,
		"event: change\n\ndata: x\n\n":                              `[message  "x"]`,
		"retry: 5\nunknown\ndata: x\n\ndata: y":                     `[message  "x"]`,
		"id: a\x00b\ndata: x\n\n":                                   `[message  "x"]`,
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			got, err := all(NewEvents(r, 0))
			if fmt.Sprint(got) != want || !errors.Is(err, io.EOF) {
				t.Errorf("%q: %v, %v, want %s", in, got, err, want)
			}
		}
	}
}

func TestEventsAreBounded(t *testing.T) {
	for _, in := range []string{"data: " + strings.Repeat("x", 200), strings.Repeat("data: 0123456789\n", 20), strings.Repeat("y", 1000)} {
		if _, err := all(NewEvents(strings.NewReader(in), 100)); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%.30q…: %v", in, err)
		}
	}
	if _, err := all(NewEvents(iotest.ErrReader(errors.New("cable")), 0)); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("a stream that breaks: %v", err)
	}
}

// FuzzEvents: however a stream is cut into pieces, its events are the same, and within
// the limit.
func FuzzEvents(f *testing.F) {
	f.Add("id: 7\nevent: change\ndata: {\"a\":1}\n\n: c\r\n\r\ndata: x\rdata: y\r\r")
	f.Add("\xef\xbb\xbfdata\n\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		const limit = 64
		s := NewEvents(strings.NewReader(in), limit)
		whole, err := all(s)
		pieces, perr := all(NewEvents(iotest.OneByteReader(strings.NewReader(in)), limit))
		if fmt.Sprint(whole) != fmt.Sprint(pieces) || mainstem.KindOf(err) != mainstem.KindOf(perr) {
			t.Errorf("%v, %v; in pieces %v, %v", whole, err, pieces, perr)
		}
		if cap(s.data) > 8*limit || cap(s.line) > 8*limit {
			t.Errorf("it keeps %d and %d bytes", cap(s.data), cap(s.line))
		}
	})
}
