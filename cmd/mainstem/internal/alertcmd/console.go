package alertcmd

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// console is a person at a terminal who types statements.
type console struct {
	m     *cli.Main
	lines lineReader
}

// lineReader asks a person for a line; io.EOF says that there will be no more.
type lineReader interface {
	readLine(ctx context.Context, prompt string) (string, error)
}

// The prompts: for a statement, and for the rest of one.
const (
	promptFirst = "mainstem> "
	promptMore  = "       -> "
)

// console returns the person at the terminal, nil if there is none.
func (m commands) console() *console {
	in, ok := m.Stdin.(*os.File)
	if !ok || !cli.IsTerminal(in) || !cli.IsTerminal(m.Stdout) {
		return nil
	}
	return &console{m: m.Main, lines: newEditor(in, m.Stdout)}
}

// loop runs what is typed until the person has enough. Mistakes are shown and end nothing.
func (c *console) loop(ctx context.Context, run func(string) error) error {
	var cutter statementCutter
	for {
		prompt := promptFirst
		if cutter.open() {
			prompt = promptMore
		}
		line, err := c.lines.readLine(ctx, prompt)
		if errors.Is(err, io.EOF) || err == nil && !cutter.open() && isQuit(line) {
			return nil
		}
		if err != nil {
			return err
		}
		complete, err := cutter.add(line)
		if err != nil {
			cutter = statementCutter{}
		}
		for _, s := range complete {
			if rerr := run(s); rerr != nil {
				err = rerr
				break
			}
		}
		if err != nil {
			if err := c.complain(ctx, err); err != nil {
				return err
			}
		}
	}
}

func isQuit(line string) bool {
	switch strings.ToLower(strings.Trim(line, " \t;")) {
	case "quit", "exit", `\q`:
		return true
	}
	return false
}

// complain shows an error below what was printed before it. It returns one that
// leaves nothing to be done: the terminal has gone, or time is up.
func (c *console) complain(ctx context.Context, err error) error {
	if ferr := c.m.Flush(); ferr != nil {
		return ferr
	}
	if ctx.Err() != nil {
		return err
	}
	c.m.Report(err)
	return nil
}

// editor lets a person edit the line and go back to earlier ones. The terminal is
// in its usual mode between lines, so that a statement that takes long can be interrupted.
type editor struct {
	in       *os.File
	terminal *term.Terminal
}

func newEditor(in *os.File, out io.Writer) *editor {
	both := struct {
		io.Reader
		io.Writer
	}{in, out}
	return &editor{in, term.NewTerminal(both, "")}
}

func (e *editor) readLine(ctx context.Context, prompt string) (string, error) {
	fd := int(e.in.Fd())
	usual, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(fd, usual) }() // a terminal that has gone needs no mode
	if width, height, err := term.GetSize(fd); err == nil && width > 0 {
		_ = e.terminal.SetSize(width, height)
	}
	e.terminal.SetPrompt(prompt)
	type answer struct {
		line string
		err  error
	}
	answered := make(chan answer, 1)
	go func() { // it ends with the line, or with the process
		line, err := e.terminal.ReadLine()
		answered <- answer{line, err}
	}()
	select {
	case a := <-answered:
		return a.line, a.err
	case <-ctx.Done():
		return "", mainstem.Ended(ctx, "sql", time.Time{}, "a line of input")
	}
}
