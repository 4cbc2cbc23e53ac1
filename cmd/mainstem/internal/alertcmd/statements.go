package alertcmd

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// statementCutter cuts lines of SQL into statements: at each ";", and at lines
// that hold nothing but "go". It keeps what is not complete yet.
type statementCutter struct {
	text    strings.Builder
	quote   byte // of the text that is open, 0 if none is
	comment bool // a comment of several lines is open
}

// errTooLong is of a statement that goes on and on, perhaps because a quote is missing.
var errTooLong = mainstem.Errorf(mainstem.KindInvalid, "sql", "the statement has more than %d bytes", osql.MaxText).WithHint("is a quote missing?")

// add takes a line and returns the statements that it completes.
func (c *statementCutter) add(line string) (complete []string, err error) {
	if c.quote == 0 && !c.comment && strings.EqualFold(strings.TrimSpace(line), "go") {
		return c.take(nil), nil
	}
	begin := 0
	for i := 0; i < len(line); i++ {
		switch rest := line[i:]; {
		case c.comment:
			if strings.HasPrefix(rest, "*/") {
				c.comment = false
				i++
			}
		case c.quote != 0:
			if line[i] == c.quote {
				c.quote = 0 // a doubled quote opens the text again at once
			}
		case strings.HasPrefix(rest, "--"):
			i = len(line)
		case strings.HasPrefix(rest, "/*"):
			c.comment = true
			i++
		case line[i] == '\'' || line[i] == '"':
			c.quote = line[i]
		case line[i] == ';':
			c.text.WriteString(line[begin:i])
			complete = c.take(complete)
			begin = i + 1
		}
	}
	c.text.WriteString(line[begin:])
	c.text.WriteByte('\n')
	if c.text.Len() > osql.MaxText {
		return complete, errTooLong
	}
	return complete, nil
}

// end returns what was left at the end of the input.
func (c *statementCutter) end() []string { return c.take(nil) }

// open reports whether a statement has begun.
func (c *statementCutter) open() bool { return strings.TrimSpace(c.text.String()) != "" }

// between reports whether no statement has begun, nor a comment of several lines.
func (c *statementCutter) between() bool {
	return c.quote == 0 && !c.comment && empty(c.text.String())
}

// take appends the statement that is held, unless it is empty, and forgets it.
func (c *statementCutter) take(complete []string) []string {
	text := c.text.String()
	c.text.Reset()
	c.quote, c.comment = 0, false
	if empty(text) {
		return complete
	}
	return append(complete, strings.TrimSpace(text))
}

// empty reports whether a text holds nothing but blanks and comments.
func empty(text string) bool {
	for {
		text = strings.TrimLeft(text, " \t\r\n\x00")
		switch {
		case text == "":
			return true
		case strings.HasPrefix(text, "--"):
			_, text, _ = strings.Cut(text, "\n")
		case strings.HasPrefix(text, "/*"):
			_, rest, ok := strings.Cut(text[2:], "*/")
			if !ok {
				return false // a mistake: running it says so
			}
			text = rest
		default:
			return false
		}
	}
}

// cut returns the statements of a text.
func cut(text string) ([]string, error) {
	var c statementCutter
	var all []string
	for line := range strings.Lines(text) {
		complete, err := c.add(strings.TrimRight(line, "\r\n"))
		if err != nil {
			return nil, err
		}
		all = append(all, complete...)
	}
	return append(all, c.end()...), nil
}

// eachStatement calls do with the statements of a stream, each as soon as it is complete.
// It ends at a line, or a statement, that is quit or exit, and reads no further.
func eachStatement(in io.Reader, do func(statement string) error) error {
	var c statementCutter
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		if c.between() && isQuit(strings.TrimRight(line, "\r\n")) {
			return nil
		}
		if line != "" {
			complete, cerr := c.add(strings.TrimRight(line, "\r\n"))
			for _, s := range complete {
				if isQuit(s) {
					return nil
				}
				if err := do(s); err != nil {
					return err
				}
			}
			if cerr != nil {
				return cerr
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	for _, s := range c.end() {
		if isQuit(s) {
			return nil
		}
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}

// readsOnly reports whether statements change nothing.
func readsOnly(statements []string) bool {
	for _, s := range statements {
		split, err := osql.Split(s, nil)
		if err != nil {
			return true // it will be refused
		}
		for i := range split {
			switch split[i].Verb() {
			case "SELECT", "DESCRIBE", "DESC", "USE":
			default:
				return false
			}
		}
	}
	return true
}
