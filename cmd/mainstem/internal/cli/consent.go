package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Consent is the flags of a command that destroys data: --dry-run and --yes.
type Consent struct{ DryRun, Yes bool }

// Add adds the flags to those of cmd.
func (c *Consent) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.DryRun, "dry-run", false, "only show how much it would be")
	cmd.Flags().BoolVar(&c.Yes, "yes", false, "do it without asking")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "yes")
}

// ConsentHelp is how the help of a command with [Consent] ends.
const ConsentHelp = `Without --yes a person at a terminal is asked first; where there is none, nothing is
done (exit status 2). --dry-run shows how much it would be.`

// Loss is what a command would destroy.
type Loss struct {
	// Text completes the sentence "this would ...", as in "drop default/users: 12 keys, 3 KiB".
	Text string
	// Fields name it with --json, and say how much it is.
	Fields *Fields
}

// errRefused is the error of a command that a person has not agreed to.
var errRefused = errors.New("nothing was changed")

// Confirm reports whether a command may go on that would destroy loss. A dry run is shown, and
// may not. Without --yes a person is asked, on standard error; asked says that a person has agreed to what
// Text says. If there is no terminal to ask at, the error is one of [WrongUsage].
func (m *Main) Confirm(cmd *cobra.Command, c *Consent, loss Loss) (agreed, asked bool, err error) {
	switch {
	case c.DryRun && m.Flags.JSON:
		return false, false, m.Object(loss.Fields.Add("dry_run", true))
	case c.DryRun:
		return false, false, m.Line("would " + loss.Text)
	case c.Yes:
		return true, false, nil
	case !m.Person || !m.Terminal:
		return false, false, WrongUsage(cmd, fmt.Errorf("this would %s; there is no terminal to ask at: say --yes, or --dry-run", loss.Text))
	}
	fmt.Fprintf(m.Stderr, "this would %s\nType yes to go on: ", loss.Text)
	answer, err := m.readAnswer(cmd.Context())
	if err == nil && answer != "yes" {
		err = errRefused
	}
	return err == nil, true, err
}

// readAnswer reads a line of standard input. When ctx ends the read itself goes on, in a process
// that is about to end.
func (m *Main) readAnswer(ctx context.Context) (string, error) {
	read := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(m.Stdin).ReadString('\n') // no line is no consent
		read <- strings.TrimSpace(line)
	}()
	select {
	case line := <-read:
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Plural returns "1 key" or "2 keys" for the noun "key".
func Plural[T ~int | ~int64 | ~uint64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
