package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

var (
	writtenField = regexp.MustCompile(`(?:\.\s*(?:Add|Time|Bytes|(?:Opt)?Texts?|Raw)|Opt)\((?:f, )?"([a-z_]+)"`)
	taggedField  = regexp.MustCompile("`json:\"([a-z_0-9]+)")
)

// TestEveryFieldIsDocumented: a new field of the output needs a line of the help.
func TestEveryFieldIsDocumented(t *testing.T) {
	files, err := filepath.Glob("internal/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	output, _, err := program(new(cli.Main)).Find([]string{"output"})
	if err != nil {
		t.Fatal(err)
	}
	help, found := output.Long, 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, pattern := range []*regexp.Regexp{writtenField, taggedField} {
			for _, m := range pattern.FindAllStringSubmatch(string(source), -1) {
				found++
				if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(help) {
					t.Errorf("%s writes the field %q, which mainstem help output does not explain", file, m[1])
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d fields found: the test looks for the wrong thing", found)
	}
}

// TestEveryCommandExplainsItself: a help text for each, with an example that
// names the command.
func TestEveryCommandExplainsItself(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.HasSubCommands() || !c.Runnable() || c.Name() == "version" {
			return
		}
		if c.Short == "" || !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s has no example of its own", c.CommandPath())
		}
		for line := range strings.SplitSeq(c.Long, "\n") {
			if len([]rune(line)) > 90 {
				t.Errorf("%s: a line of %d characters in the help: %s", c.CommandPath(), len([]rune(line)), line)
			}
		}
	}
	walk(program(new(cli.Main)))
}
