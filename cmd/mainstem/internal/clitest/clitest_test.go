package clitest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// greet is a group of one command.
func greet(m *cli.Main) *cobra.Command {
	return &cobra.Command{Use: "greet NAME", Args: cli.Args(1, 1), RunE: func(_ *cobra.Command, a []string) error {
		return m.Line("hello " + a[0])
	}}
}

// failures is a testing.TB that only notes what is wrong.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

func TestChecker(t *testing.T) {
	check := Checker(t, greet, "greet")
	check("you", 0, `^hello you\n$`)
	check("", 2, `0 arguments`)
	f := &failures{TB: t}
	check = Checker(f, greet, "greet")
	check("you", 0, `^goodbye`)
	check("you", 1, `hello`)
	if len(f.texts) != 2 || !strings.HasPrefix(f.texts[0], "mainstem greet you: exit status 0, want 0:\nhello you\nwant ^goodbye") {
		t.Errorf("%q", f.texts)
	}
}
