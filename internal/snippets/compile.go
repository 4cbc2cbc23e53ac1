package snippets

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Problem is a place of a document that is wrong.
type Problem struct {
	Path string
	Line int
	What string
}

// String returns "path:line: what".
func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.Path, p.Line, p.What) }

// Check compiles the snippets of the module in a folder of the repository, "." for the
// main one, and those of the files given, which may belong to another module. It returns
// how many snippets there are and what is wrong, in the order of the documents.
func Check(repository, module string, files ...string) (n int, problems []Problem, err error) {
	found, problems, err := find(os.DirFS(repository), module, files)
	if err != nil {
		return 0, nil, err
	}
	dir, err := filepath.Abs(filepath.Join(repository, filepath.FromSlash(module)))
	if err != nil {
		return 0, nil, err
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		return 0, nil, err
	}
	c := &compiler{dir: dir, root: root}
	if err := c.listNames(); err != nil {
		return 0, nil, err
	}
	bad, err := c.compile(found)
	return len(found), append(problems, bad...), err
}

// compiler compiles snippets with the packages of one module.
type compiler struct {
	dir   string // of the module
	root  string // of the repository
	names map[string][]candidate
}

// candidate is a package that a name may mean.
type candidate struct {
	path     string
	dir      string
	standard bool
}

func (c candidate) internal() bool { return slices.Contains(strings.Split(c.path, "/"), "internal") }

// goList runs go list in the folder of the module and returns the fields of its lines.
func (c *compiler) goList(format string, args ...string) ([][]string, error) {
	cmd := exec.Command("go", append([]string{"list", "-f", format}, args...)...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	var rows [][]string
	for line := range strings.Lines(string(out)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows, nil
}

// listNames finds the packages that a snippet may use without an import.
func (c *compiler) listNames() error {
	rows, err := c.goList("{{.Name}}\t{{.ImportPath}}\t{{.Dir}}\t{{.Standard}}", "-find", "std", "./...", mainModule+"/...")
	if err != nil {
		return err
	}
	c.names = map[string][]candidate{}
	for _, r := range rows {
		p := candidate{path: r[1], dir: r[2], standard: r[3] == "true"}
		if r[0] == "main" || strings.HasPrefix(p.path, "vendor/") || slices.Contains(c.names[r[0]], p) {
			continue
		}
		c.names[r[0]] = append(c.names[r[0]], p)
	}
	return nil
}

const mainModule = "github.com/mainstemdev/mainstem"

// known are the variables that every fragment may use.
var known = map[string][]string{
	"ctx": {`import "context"`, "var ctx context.Context"},
	"err": {"var err error"},
	"log": {`import "` + mainModule + `"`, "var log mainstem.Log"},
	"b":   {`import "` + mainModule + `"`, "var b *mainstem.Batch"},
	"t":   {`import "testing"`, "var t *testing.T"},
}

// meaning returns the lines that declare a name which a snippet uses, nil if there are none:
// a variable, the package that the document belongs to, the only public one of that
// name in the module and in the main one, the only one of the standard library, the only
// internal one.
func (c *compiler) meaning(s Snippet, name string) []string {
	if lines := known[name]; lines != nil {
		return lines
	}
	own := filepath.Join(c.root, filepath.FromSlash(path.Dir(s.Path)))
	for _, fits := range []func(candidate) bool{
		func(p candidate) bool { return p.dir == own },
		func(p candidate) bool { return strings.HasPrefix(p.dir, c.dir) && !p.internal() },
		func(p candidate) bool { return !p.standard && !p.internal() },
		func(p candidate) bool { return p.standard && !p.internal() },
		func(p candidate) bool { return !p.standard },
	} {
		var found []candidate
		for _, p := range c.names[name] {
			if fits(p) {
				found = append(found, p)
			}
		}
		if len(found) == 1 {
			return []string{fmt.Sprintf("import %q", found[0].path)}
		}
	}
	return nil
}

// unit is a snippet as a file.
type unit struct {
	fset   *token.FileSet
	file   *ast.File
	elided bool // something is left out, which may be a return
}

// compile returns what is wrong with the snippets.
func (c *compiler) compile(found []Snippet) (problems []Problem, err error) {
	var units []unit
	imports := map[string]bool{}
	for _, s := range found {
		u, bad := c.resolve(s)
		if bad != nil {
			problems = append(problems, *bad)
			continue
		}
		units = append(units, u)
		for _, i := range u.file.Imports {
			imports[strings.Trim(i.Path.Value, "`\"")] = true
		}
	}
	exports, err := c.exports(slices.Sorted(maps.Keys(imports)))
	if err != nil {
		return nil, err
	}
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no package %s", path)
		}
		return os.Open(exports[path])
	}
	packages := importer.ForCompiler(token.NewFileSet(), "gc", lookup)
	for _, u := range units {
		problems = append(problems, u.check(packages)...)
	}
	return problems, nil
}

// exports returns the files that describe the packages at these paths to importers. What
// is not in the build cache is compiled.
func (c *compiler) exports(paths []string) (map[string]string, error) {
	files := map[string]string{}
	if len(paths) == 0 {
		return files, nil
	}
	rows, err := c.goList("{{.ImportPath}}\t{{.Export}}", append([]string{"-export", "-e"}, paths...)...)
	for _, r := range rows {
		files[r[0]] = r[1]
	}
	return files, err
}

// resolve declares what a snippet uses and does not declare.
func (c *compiler) resolve(s Snippet) (unit, *Problem) {
	if bad := parses(s); bad != nil {
		return unit{}, bad
	}
	var front []string
	seen := map[string]bool{}
	for {
		fset, file, err := source(s, front)
		if err != nil {
			return unit{}, &Problem{s.Path, s.Line, err.Error()}
		}
		u, more := unit{fset, file, elide(s.Code) != s.Code}, false
		for _, p := range u.check(nil) {
			name, undefined := strings.CutPrefix(p.What, "undefined: ")
			if !undefined || seen[name] {
				continue
			}
			seen[name] = true
			for _, line := range c.meaning(s, name) {
				if !slices.Contains(front, line) {
					front, more = append(front, line), true
				}
			}
		}
		if !more {
			return u, nil
		}
	}
}

// check type-checks a unit, whose variables and imports may be unused. Without packages
// it says no more than what is undefined.
func (u unit) check(packages types.Importer) (problems []Problem) {
	config := types.Config{
		Importer: packages,
		Error: func(err error) {
			var e types.Error
			if errors.As(err, &e) && !strings.Contains(e.Msg, "and not used") && !(u.elided && e.Msg == "missing return") {
				at := e.Fset.Position(e.Pos)
				problems = append(problems, Problem{at.Filename, at.Line, e.Msg})
			}
		},
	}
	_, _ = config.Check("snippet", u.fset, []*ast.File{u.file}, nil) // the first of the errors that Error gets
	return problems
}
