package alertcmd

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// screen is a terminal that is drawn over itself, on a page of its own: what was
// there before is back when it is closed.
type screen struct {
	in      *os.File
	out     io.Writer
	usual   *term.State
	pressed chan key
}

// What a terminal does on these bytes.
const (
	pageOpen  = "\x1b[?1049h\x1b[?25l" // a page of its own, without a cursor
	pageClose = "\x1b[?25h\x1b[?1049l"
	pageHome  = "\x1b[H"
	lineRest  = "\x1b[K" // clears what is left of the line
	pageRest  = "\x1b[J"
)

func openScreen(in *os.File, out io.Writer) (*screen, error) {
	usual, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	s := &screen{in: in, out: out, usual: usual, pressed: make(chan key)}
	if _, err := io.WriteString(out, pageOpen); err != nil {
		_ = term.Restore(int(in.Fd()), usual)
		return nil, err
	}
	go readKeys(in, s.pressed) // it ends with the input, or with the process
	return s, nil
}

func (s *screen) close() error {
	_, err := io.WriteString(s.out, pageClose)
	if rerr := term.Restore(int(s.in.Fd()), s.usual); err == nil {
		err = rerr
	}
	return err
}

// size returns that of the terminal, or what is usual if it does not say.
func (s *screen) size() (width, height int) {
	width, height, err := term.GetSize(int(s.in.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

func (s *screen) draw(lines []string) error {
	_, err := io.WriteString(s.out, pageHome+strings.Join(lines, lineRest+"\r\n")+lineRest+pageRest)
	return err
}

func (s *screen) keys() <-chan key { return s.pressed }

// sequences are what keys send.
var sequences = map[string]key{
	"q": keyQuit, "Q": keyQuit, "\x03": keyQuit, "\x04": keyQuit,
	"k": keyUp, "\x1b[A": keyUp, "\x1bOA": keyUp,
	"j": keyDown, "\x1b[B": keyDown, "\x1bOB": keyDown,
	"\x1b[5~": keyPageUp, "b": keyPageUp, "\x1b[6~": keyPageDown, " ": keyPageDown,
	"g": keyHome, "\x1b[H": keyHome, "\x1b[1~": keyHome, "G": keyEnd, "\x1b[F": keyEnd, "\x1b[4~": keyEnd,
}

// readKeys sends the keys that are pressed, until the input ends.
func readKeys(in io.Reader, out chan<- key) {
	defer close(out)
	buf := make([]byte, 64)
	for {
		n, err := in.Read(buf)
		for rest := string(buf[:n]); rest != ""; {
			var k key
			k, rest = nextKey(rest)
			out <- k
		}
		if err != nil {
			return
		}
	}
}

// nextKey takes the key at the beginning of what a terminal has sent.
func nextKey(s string) (key, string) {
	for n := min(4, len(s)); n > 0; n-- {
		if k, ok := sequences[s[:n]]; ok {
			return k, s[n:]
		}
	}
	if s[0] == '\x1b' { // a key that means nothing here
		return keyOther, ""
	}
	return keyOther, s[1:]
}
