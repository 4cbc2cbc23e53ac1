package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxText is the size in bytes up to which a file is read as a text. What is
// larger is data.
const maxText = 1 << 20

// Tree is a repository as the rules see it.
type Tree struct {
	Module   string            // the module path of the root go.mod
	Texts    map[string]string // contents of the text files, by slash-separated path
	Others   map[string]bool   // paths of the files that are not text, such as pictures
	Packages []*Package        // by folder
	fset     *token.FileSet
}

// Package is the Go files of one folder, tests included.
type Package struct {
	Dir   string // "." for the root
	Name  string // without a _test suffix
	Files []*File
}

// File is one Go file.
type File struct {
	Path      string
	Syntax    *ast.File
	Test      bool // its name ends in _test.go
	Generated bool
	imports   map[string]string // the name in this file to the import path
}

// Load reads the repository at the root of fsys. It leaves out folders whose
// names begin with a dot (but not .ci), the file .git of a work tree, what is not
// text, and, as Go code but not as texts, testdata folders.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{Texts: map[string]string{}, Others: map[string]bool{}, fset: token.NewFileSet()}
	packages := map[string]*Package{}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && hidden(p):
			return fs.SkipDir
		case !d.Type().IsRegular() || p == ".git": // a file in a work tree of git worktree
			return nil
		}
		text, err := readText(fsys, p, d)
		if err != nil || text == "" {
			t.Others[p] = true
			return err
		}
		t.Texts[p] = text
		if path.Ext(p) != ".go" || slices.Contains(strings.Split(p, "/"), "testdata") {
			return nil
		}
		return t.addFile(packages, p, text)
	})
	if err != nil {
		return nil, err
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		t.Packages = append(t.Packages, packages[dir])
	}
	t.Module = modulePath(t.Texts["go.mod"])
	return t, nil
}

func hidden(dir string) bool {
	name := path.Base(dir)
	return strings.HasPrefix(name, ".") && name != "." && name != ".ci" || strings.HasPrefix(name, "_")
}

// readText returns "" for a file that is not text.
func readText(fsys fs.FS, p string, d fs.DirEntry) (string, error) {
	info, err := d.Info()
	if err != nil || info.Size() > maxText {
		return "", err
	}
	b, err := fs.ReadFile(fsys, p)
	if err != nil || bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b) {
		return "", err
	}
	return string(b), nil
}

func (t *Tree) addFile(packages map[string]*Package, p, text string) error {
	syntax, err := parser.ParseFile(t.fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f := &File{
		Path:      p,
		Syntax:    syntax,
		Test:      strings.HasSuffix(p, "_test.go"),
		Generated: ast.IsGenerated(syntax),
		imports:   map[string]string{},
	}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		name := importName(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		f.imports[name] = imported
	}
	dir := path.Dir(p)
	if packages[dir] == nil {
		packages[dir] = &Package{Dir: dir, Name: strings.TrimSuffix(syntax.Name.Name, "_test")}
	}
	packages[dir].Files = append(packages[dir].Files, f)
	return nil
}

// importName guesses the name of the package at an import path: its last
// element, or the one before a major version.
func importName(imported string) string {
	name := path.Base(imported)
	if n, ok := strings.CutPrefix(name, "v"); ok && strings.Contains(imported, "/") {
		if _, err := strconv.Atoi(n); err == nil {
			return path.Base(path.Dir(imported))
		}
	}
	return name
}

// Code returns the files that are neither tests nor generated.
func (p *Package) Code() []*File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test || f.Generated })
}

// Tests returns the test files.
func (p *Package) Tests() []*File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return !f.Test })
}

// Public reports whether other modules can import the package and are meant to.
func (p *Package) Public() bool {
	elements := strings.Split(p.Dir, "/")
	if p.Name == "main" || slices.Contains(elements, "internal") || len(p.Code()) == 0 {
		return false
	}
	switch elements[0] {
	case "cmd", "examples", "bench", "interop":
		return false
	}
	return slices.ContainsFunc(p.Code(), func(f *File) bool { return len(f.Syntax.Decls) > 0 })
}

// files yields every Go file that a person wrote, with its package.
func (t *Tree) files(yield func(*Package, *File) bool) {
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if !f.Generated && !yield(p, f) {
				return
			}
		}
	}
}

// lines yields the lines of every text whose path satisfies pick, numbered from 1.
func (t *Tree) lines(pick func(path string) bool) func(yield func(place, string) bool) {
	return func(yield func(place, string) bool) {
		for _, p := range slices.Sorted(maps.Keys(t.Texts)) {
			if !pick(p) {
				continue
			}
			n := 0
			for line := range strings.Lines(t.Texts[p]) {
				n++
				if !yield(place{path: p, line: n}, strings.TrimRight(line, "\r\n")) {
					return
				}
			}
		}
	}
}

// place is where something was found.
type place struct {
	path   string
	line   int    // 0 means the whole file or folder
	symbol string // the declaration around it, "Type.Method" for methods, or ""
}

func (t *Tree) at(f *File, n ast.Node) place {
	return place{path: f.Path, line: t.fset.Position(n.Pos()).Line, symbol: symbolAround(f, n)}
}

func symbolAround(f *File, n ast.Node) string {
	for _, d := range f.Syntax.Decls {
		if d.Pos() <= n.Pos() && n.Pos() < d.End() {
			if fn, ok := d.(*ast.FuncDecl); ok {
				return funcName(fn)
			}
		}
	}
	return ""
}

// funcName returns "Func" or "Type.Method".
func funcName(fn *ast.FuncDecl) string {
	if r := receiver(fn); r != "" {
		return r + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// receiver returns the name of the type of a method, "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
