// Package generatecmd is the commands of mainstem generate, which write Go files for a domain to
// begin with.
//
//	mainstem generate event OrderPlaced
//	mainstem generate aggregate Order --event OrderPlaced
package generatecmd

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

//go:embed templates/*.tmpl
var files embed.FS

var templates = template.Must(template.ParseFS(files, "templates/*.tmpl"))

// commands has a method for each command of the group, and what these share.
type commands struct{ *cli.Main }

// New returns mainstem generate.
func New(program *cli.Main) *cobra.Command {
	m := commands{program}
	c := &cobra.Command{
		Use:   "generate",
		Short: "Write Go files for a domain to begin with",
		Long: `Write a Go file that compiles against the toolkit of event sourcing, for a program to
begin with. NAME is the name of a Go type, such as OrderPlaced, and the file is named for it,
order_placed.go. A file that exists is left alone (exit status 4) unless --force is given.`,
		RunE: cli.Group,
	}
	c.AddCommand(
		m.newKind("event", "An event type", `Write an event type and the function that registers it.`,
			"  mainstem generate event OrderPlaced\n  mainstem generate event OrderPlaced --dir internal/shop"),
		m.newKind("aggregate", "An aggregate", `Write an aggregate and the function that opens its repository. Its Apply knows the events
that --event names.`,
			"  mainstem generate aggregate Order --event OrderPlaced --event OrderPaid"),
		m.newKind("command", "A command", `Write a command to an aggregate and the function that registers its handler.`,
			"  mainstem generate command PlaceOrder"),
		m.newKind("projection", "A projection and its read model", `Write a read model and the projection that computes it from the events that --event names;
without --event, from an event type that the file declares too.`,
			"  mainstem generate projection OrderSummary --event OrderPlaced"),
	)
	return c
}

// source is what a template is filled in with, and where the file goes.
type source struct {
	kind     string
	Name     string
	Package  string
	Events   []string
	Own      bool   // the file declares its event
	Category string // the name in snake case
	dir      string
	force    bool
}

func (m commands) newKind(kind, short, long, example string) *cobra.Command {
	s := source{kind: kind}
	cmd := &cobra.Command{
		Use:     kind + " NAME",
		Short:   short,
		Long:    long,
		Example: example,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			s := s
			s.Name = a[0]
			if err := s.check(); err != nil {
				return cli.WrongUsage(cmd, err)
			}
			path, err := s.write()
			if err != nil {
				return err
			}
			if m.Flags.JSON {
				return m.Object(new(cli.Fields).Text("file", path).Add("package", s.Package).Add("name", s.Name))
			}
			return m.Line(path)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.dir, "dir", ".", "`directory` of the file")
	f.StringVar(&s.Package, "package", "", "`name` of its package (default that of the files there, else that of the directory)")
	f.BoolVar(&s.force, "force", false, "overwrite the file if it exists")
	if kind == "aggregate" || kind == "projection" {
		f.StringArrayVar(&s.Events, "event", nil, "Go `type` of an event; may be given several times")
	}
	return cmd
}

var (
	exported    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	packageName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// check fills in what is missing.
func (s *source) check() error {
	for _, name := range append([]string{s.Name}, s.Events...) {
		if !exported.MatchString(name) || len(name) > 100 {
			return fmt.Errorf("%q is not the name of an exported Go type of letters and digits, such as OrderPlaced", name)
		}
	}
	s.Category = snake(s.Name)
	if s.kind == "projection" && len(s.Events) == 0 {
		s.Events, s.Own = []string{s.Name + "Changed"}, true
	}
	if s.Package == "" {
		s.Package = packageOf(s.dir)
	}
	if !packageName.MatchString(s.Package) || token.IsKeyword(s.Package) {
		return fmt.Errorf("%q is not the name of a package: name one with --package", s.Package)
	}
	return nil
}

// packageOf returns the package of the Go files in a directory, else one named for it.
func packageOf(dir string) string {
	paths, _ := filepath.Glob(filepath.Join(dir, "*.go")) // only a bad pattern is an error
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
		if err == nil && !strings.HasSuffix(f.Name.Name, "_test") {
			return f.Name.Name
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, filepath.Base(abs))
}

// snake returns a Go name in snake case: OrderPlaced is order_placed, HTTPServer http_server.
func snake(name string) string {
	var b strings.Builder
	rs := []rune(name)
	for i, r := range rs {
		if unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// render returns the file.
func (s *source) render() ([]byte, error) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, s.kind+".tmpl", s); err != nil {
		return nil, err
	}
	return format.Source(b.Bytes())
}

// write writes the file and returns its path.
func (s *source) write() (string, error) {
	text, err := s.render()
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.dir, s.Category+".go")
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if s.force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, mode, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return "", cli.Hint(mainstem.Errorf(mainstem.KindExists, "generate", "%s is there already", path), "overwrite it with --force")
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	return path, errors.Join(err, f.Close())
}
