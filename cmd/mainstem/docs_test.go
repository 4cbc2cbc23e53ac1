package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// otherFlags are the flags that documents name and that are not of this program.
var otherFlags = map[string]string{
	"describe": "of Kafka's own tools", "bootstrap-server": "of Kafka's own tools",
	"max-request-bytes": "of etcd", "unsafe-no-fsync": "of etcd",
	"thresholds": "of the bench", "contenders": "of the bench", "address": "of the bench", "quick": "of the bench", "scale": "of the bench",
	"no-deps": "of pip",
	"writers": "of the bench", "part": "of the bench", "rate": "of the bench", "find": "of the bench", "plots": "of the bench",
	"gobench": "of the bench", "dir": "of the bench", "out": "of the bench", "new": "of the bench", "note": "of the bench",
}

// commandLine is one that a document shows.
type commandLine struct {
	at    string // path:line
	text  string
	whole bool // it can be run as it is: its arguments are checked too
}

// Every command line of this program that a document, a comment or a help text shows
// names commands and flags that there are, with as many arguments as they take.
func TestCommandLinesOfDocuments(t *testing.T) {
	lines := append(commandLines(t), examples()...)
	if len(lines) < 200 {
		t.Errorf("only %d command lines found: the test looks for the wrong thing", len(lines))
	}
	for _, l := range lines {
		for _, words := range shellCommands(l.text) {
			if args, ok := ofMainstem(words); ok {
				if err := understood(args, l.whole); err != nil {
					t.Errorf("%s: %s: %v", l.at, l.text, err)
				}
			}
		}
	}
}

// Every flag that a document names in passing is one of some command.
func TestFlagsOfDocuments(t *testing.T) {
	known := map[string]bool{"help": true, "version": true}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(program(cli.New()))
	flag := regexp.MustCompile("(?:^|[ `(])--([a-z][a-z0-9-]*)")
	named := 0
	for _, l := range commandLines(t) {
		for _, m := range flag.FindAllStringSubmatch(l.text, -1) {
			named++
			if !known[m[1]] && otherFlags[m[1]] == "" && !l.whole {
				t.Errorf("%s: no command has the flag --%s: %s", l.at, m[1], l.text)
			}
		}
	}
	if named < 100 {
		t.Errorf("only %d flags found: the test looks for the wrong thing", named)
	}
}

var (
	fence       = regexp.MustCompile("^```+ *(\\w*)")
	inline      = regexp.MustCompile("`[^`]+`")
	commentLine = regexp.MustCompile(`^//\t((?:mainstem|echo|tail) .*)`)
)

// commandLines returns what the documents and the comments of this repository show: the
// lines of blocks in sh, and what stands in backquotes.
func commandLines(t *testing.T) (found []commandLine) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err != nil || d.IsDir() {
			if name == "testdata" || strings.HasPrefix(name, ".") && path != root {
				return fs.SkipDir
			}
			return err
		}
		if ext := filepath.Ext(path); ext != ".md" && ext != ".go" || name == "report.md" { // the report names cases of the bench
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path = strings.TrimPrefix(path, root+string(filepath.Separator))
		if filepath.Ext(path) == ".go" {
			found = append(found, linesOfComments(path, string(text))...)
		} else {
			found = append(found, linesOfDocument(path, string(text))...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func linesOfDocument(path, text string) (found []commandLine) {
	language := "" // of the block that the line is in
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		at, line := fmt.Sprintf("%s:%d", path, i+1), lines[i]
		m := fence.FindStringSubmatch(line)
		switch {
		case m != nil && language != "":
			language = ""
		case m != nil:
			language = m[1] + " "
		case language == "sh ":
			for strings.HasSuffix(line, "\\") && i+1 < len(lines) {
				i++
				line = strings.TrimSuffix(line, "\\") + " " + strings.TrimSpace(lines[i])
			}
			found = append(found, commandLine{at, line, true})
		case language == "":
			for _, code := range inline.FindAllString(line, -1) {
				found = append(found, commandLine{at, strings.ReplaceAll(strings.Trim(code, "`"), `\|`, "|"), false})
			}
		}
	}
	return found
}

func linesOfComments(path, text string) (found []commandLine) {
	for i, line := range strings.Split(text, "\n") {
		if line == "//\tmainstem log" { // the first line of the file that marks a log
			continue
		}
		if m := commentLine.FindStringSubmatch(line); m != nil {
			found = append(found, commandLine{fmt.Sprintf("%s:%d", path, i+1), m[1], true})
		}
	}
	return found
}

// examples returns the command lines of the help texts.
func examples() (found []commandLine) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		text := strings.ReplaceAll(c.Example, "\\\n", " ")
		for line := range strings.Lines(text) {
			found = append(found, commandLine{"help of " + c.CommandPath(), strings.TrimSpace(line), true})
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(program(cli.New()))
	return found
}

// ofMainstem returns the arguments of a command if it runs this program.
func ofMainstem(words []string) ([]string, bool) {
	if len(words) > 2 && words[0] == "go" && words[1] == "run" && words[2] == "./cmd/mainstem" {
		return words[3:], true
	}
	if len(words) == 0 || words[0] != "mainstem" {
		return nil, false
	}
	return words[1:], true
}

// understood returns why the program refuses a command line before it does anything.
func understood(args []string, whole bool) error {
	root := program(cli.New())
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	err = cmd.ParseFlags(rest)
	if unfinished := (*pflag.ValueRequiredError)(nil); err != nil && (whole || !errors.As(err, &unfinished)) {
		return err
	}
	given := cmd.Flags().Args()
	if cmd.HasSubCommands() && len(given) > 0 {
		return fmt.Errorf("%s has no command %q", cmd.CommandPath(), given[0])
	}
	if !whole || cmd.Name() == "help" {
		return nil
	}
	return cmd.ValidateArgs(given)
}

// shellCommands returns the words of the commands in a line of a shell: it knows quotes,
// comments, pipes, lists and redirections.
func shellCommands(line string) (commands [][]string) {
	var words []string
	var word strings.Builder
	inWord := false
	endWord := func() {
		if inWord {
			words = append(words, word.String())
			word.Reset()
			inWord = false
		}
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'' || c == '"':
			end := strings.IndexByte(line[i+1:], c)
			if end < 0 {
				end = len(line) - i - 1
			}
			word.WriteString(line[i+1 : min(i+1+end, len(line))])
			inWord = true
			i += end + 1
		case c == '#' && !inWord:
			i = len(line)
		case strings.IndexByte(" \t", c) >= 0:
			endWord()
		case strings.IndexByte("|&;", c) >= 0:
			endWord()
			commands, words = append(commands, words), nil
		case strings.IndexByte("<>", c) >= 0: // a file follows
			endWord()
			for i++; i < len(line) && strings.IndexByte(" &>", line[i]) >= 0; i++ {
			}
			for i < len(line) && line[i] != ' ' {
				i++
			}
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	endWord()
	return append(commands, words)
}

func TestUnderstood(t *testing.T) {
	for line, want := range map[string]string{
		`mainstem kv put app/users 42 '{"name":"Ada"}' # a comment`:      "",
		`echo 'mainstem no' | mainstem topic produce parcels --key 42 &`: "",
		`mainstem kv list x > file --json`:                               "",
		`go run ./cmd/mainstem serve`:                                    "",
		`mainstem help output`:                                           "",
		`mainstem kv putt a b c`:                                         "no command",
		`mainstem nosuch`:                                                "no command",
		`mainstem serve --kafkas x`:                                      "kafkas",
		`mainstem kv get app/users`:                                      "argument",
		`true && mainstem topic create x --partitions many`:              "many",
	} {
		var got error
		for _, words := range shellCommands(line) {
			if args, ok := ofMainstem(words); ok {
				got = understood(args, true)
			}
		}
		if (got == nil) != (want == "") || got != nil && !strings.Contains(got.Error(), want) {
			t.Errorf("%s: %v, want %q", line, got, want)
		}
	}
}
