package snippets

import (
	"bytes"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Snippet is Go code that a document shows.
type Snippet struct {
	Path   string // of the document, slash-separated, relative to the root of the repository
	Line   int    // of the first line of Code in the document
	Code   string
	Before string // the declarations that the reader does not see
}

// directive is how a line of a comment begins that declares something for the snippets
// of that comment.
const directive = "//snippet:"

// find returns the snippets of the module in the folder module of fsys, and of the files
// given. What is in nested modules, testdata and hidden folders is left out.
func find(fsys fs.FS, module string, files []string) (found []Snippet, problems []Problem, err error) {
	err = fs.WalkDir(fsys, module, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != module && (hidden(p) || nested(fsys, p)) {
				return fs.SkipDir
			}
			return nil
		}
		if ext := path.Ext(p); d.Type().IsRegular() && (ext == ".go" || ext == ".md") {
			files = append(files, p)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for _, p := range files {
		text, err := fs.ReadFile(fsys, p)
		if err != nil {
			return nil, nil, err
		}
		read := markdown
		if path.Ext(p) == ".go" {
			read = comments
		}
		s, bad := read(p, text)
		found, problems = append(found, s...), append(problems, bad...)
	}
	return found, problems, nil
}

func hidden(dir string) bool {
	name := path.Base(dir)
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata"
}

func nested(fsys fs.FS, dir string) bool {
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

var (
	fence = regexp.MustCompile("^ *```+(.*)$")
	list  = regexp.MustCompile(`^\s*([-*+]|\d+[.)])\s`)
)

// markdown returns the blocks of a document that are fenced as Go, and as problems the
// blocks that do not say what they are.
func markdown(p string, text []byte) (found []Snippet, problems []Problem) {
	lines := strings.Split(string(text), "\n")
	before := "" // from a comment above, until a line that is neither blank nor a fence
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		m := fence.FindStringSubmatch(line)
		switch {
		case m != nil:
			end := i + 1
			for end < len(lines) && !fence.MatchString(lines[end]) {
				end++
			}
			switch strings.TrimSpace(m[1]) {
			case "":
				problems = append(problems, Problem{p, i + 1, "a block that names no language: want ```go, ```sh, ```yaml, ```json or ```text"})
			case "go":
				found = append(found, Snippet{p, i + 2, strings.Join(lines[i+1:min(end, len(lines))], "\n") + "\n", before})
			}
			i, before = end, ""
		case strings.HasPrefix(line, "<!-- snippet:"):
			end := i
			for end < len(lines)-1 && !strings.Contains(lines[end], "-->") {
				end++
			}
			before, _, _ = strings.Cut(strings.TrimPrefix(strings.Join(lines[i:end+1], "\n"), "<!-- snippet:"), "-->")
			i = end
		case strings.TrimSpace(line) == "":
		case indented(lines, i):
			problems = append(problems, Problem{p, i + 1, "a block that is only indented: fence it and name its language"})
			for i+1 < len(lines) && (strings.HasPrefix(lines[i+1], "    ") || lines[i+1] == "") {
				i++
			}
		default:
			before = ""
		}
	}
	return found, problems
}

// indented reports whether a block that is indented as code begins at line i: not one
// that belongs to the list above it.
func indented(lines []string, i int) bool {
	if !strings.HasPrefix(lines[i], "    ") || i > 0 && lines[i-1] != "" {
		return false
	}
	for i--; i >= 0; i-- {
		if lines[i] != "" {
			return !list.MatchString(lines[i]) && !strings.HasPrefix(lines[i], " ")
		}
	}
	return true
}

// comments returns the blocks of Go in the comments of a file that go doc shows.
func comments(p string, text []byte) (found []Snippet, problems []Problem) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, []Problem{{p, 0, err.Error()}}
	}
	lines := strings.Split(string(bytes.ReplaceAll(text, []byte("\r"), nil)), "\n")
	for _, group := range documentation(f) {
		first, last := fset.Position(group.Pos()).Line, fset.Position(group.End()).Line
		source := lines[first-1 : last]
		var declared []string
		for _, c := range group.List {
			if d, ok := strings.CutPrefix(c.Text, directive); ok {
				declared = append(declared, d)
			}
		}
		var p0 comment.Parser
		for _, block := range p0.Parse(group.Text()).Content {
			code, ok := block.(*comment.Code)
			if !ok {
				continue
			}
			s := Snippet{Path: p, Line: first + lineOf(source, code.Text), Code: code.Text, Before: strings.Join(declared, "\n")}
			switch err := parses(s); {
			case err == nil:
				found = append(found, s)
			case onlyGo.MatchString(s.Code):
				problems = append(problems, *err)
			}
		}
	}
	return found, problems
}

// onlyGo matches a line that no command, table or drawing has.
var onlyGo = regexp.MustCompile(`(?m):=|\berr = |^(func|package|defer) |^import "|^type \w+ (struct|interface|func)|^for .*\{$`)

// documentation returns the comments of the package and of all declarations.
func documentation(f *ast.File) []*ast.CommentGroup {
	groups := []*ast.CommentGroup{f.Doc}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			groups = append(groups, n.Doc)
			return false
		case *ast.GenDecl:
			groups = append(groups, n.Doc)
		case *ast.TypeSpec:
			groups = append(groups, n.Doc)
		case *ast.ValueSpec:
			groups = append(groups, n.Doc)
		case *ast.Field:
			groups = append(groups, n.Doc)
		}
		return true
	})
	return slices.DeleteFunc(groups, func(g *ast.CommentGroup) bool { return g == nil })
}

// lineOf returns where the lines of code begin in those of the comment that shows it.
func lineOf(source []string, code string) int {
	want := strings.Split(strings.TrimRight(code, "\n"), "\n")
	for i := 0; i+len(want) <= len(source); i++ {
		same := true
		for j, w := range want {
			have := strings.TrimPrefix(strings.TrimSpace(source[i+j]), "//")
			same = same && strings.TrimSpace(have) == strings.TrimSpace(w)
		}
		if same {
			return i
		}
	}
	return 0
}
