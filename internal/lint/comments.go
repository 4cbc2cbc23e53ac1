package lint

import (
	"go/ast"
	"go/doc"
	"go/token"
	"path"
	"slices"
	"strings"
)

func commentRules() []Rule {
	return []Rule{
		{
			Name:    "package-comment",
			Because: "the package comments are the map of this repository, and one that is not attached is shown by no tool",
			Instead: `one comment that begins "Package name" ("Command name" for programs), right above the package clause of one file`,
			find:    findPackageComments,
		},
		{
			Name:    "example",
			Because: "an example that runs is the only documentation that cannot become wrong",
			Instead: `a function ExampleXxx with an "// Output:" comment in example_test.go`,
			find:    findMissingExamples,
		},
		{
			Name:    "doc-comment",
			Because: "the comment of an exported name is its contract: errors, ordering, durability, who owns the bytes",
			Instead: "a comment right above it that begins with its name",
			find:    findMissingDocs,
		},
	}
}

func findPackageComments(t *Tree, report reporter) {
	for _, p := range t.Packages {
		var code, documented []*File
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			code = append(code, f)
			if f.Syntax.Doc != nil && f.Syntax.Doc.Text() != "" {
				documented = append(documented, f)
			}
		}
		switch {
		case len(code) == 0:
		case len(documented) == 0:
			if f := detachedComment(code); f != nil {
				report(t.at(f, f.Syntax.Comments[0]), "a blank line stands between the comment and the package clause")
			} else {
				report(place{path: p.Dir}, "package %s has no package comment", p.Name)
			}
		case len(documented) > 1:
			for _, f := range documented[1:] {
				report(t.at(f, f.Syntax.Doc), "package %s has a second package comment; the first is in %s", p.Name, documented[0].Path)
			}
		default:
			f := documented[0]
			if want := p.title(); !strings.HasPrefix(f.Syntax.Doc.Text(), want+" ") {
				report(t.at(f, f.Syntax.Doc), "the package comment does not begin with %q", want)
			}
		}
	}
}

// title returns how the package comment begins.
func (p *Package) title() string {
	if p.Name == "main" {
		return "Command " + path.Base(p.Dir)
	}
	return "Package " + p.Name
}

// detachedComment returns the first file with a comment above the package clause
// that is not attached to it and not an instruction to the compiler.
func detachedComment(files []*File) *File {
	for _, f := range files {
		for _, c := range f.Syntax.Comments {
			if c.End() < f.Syntax.Package && c.Text() != "" {
				return f
			}
		}
	}
	return nil
}

func findMissingExamples(t *Tree, report reporter) {
	for _, p := range t.Packages {
		if !p.Public() {
			continue
		}
		var tests []*ast.File
		for _, f := range p.Tests() {
			tests = append(tests, f.Syntax)
		}
		runs := func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput }
		if !slices.ContainsFunc(doc.Examples(tests...), runs) {
			report(place{path: p.Dir}, "package %s has no example that runs", p.Name)
		}
	}
}

func findMissingDocs(t *Tree, report reporter) {
	for p, f := range t.files {
		if !p.Public() || f.Test {
			continue
		}
		for _, d := range f.Syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if r := receiver(d); d.Name.IsExported() && (r == "" || ast.IsExported(r)) {
					t.wantDoc(report, f, d.Name, funcName(d), d.Doc)
				}
			case *ast.GenDecl:
				t.wantDocs(report, f, d)
			}
		}
	}
}

// wantDocs reports the exported names of a declaration that have no comment. One
// comment above a group of constants or variables serves all of them.
func (t *Tree) wantDocs(report reporter, f *File, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				text := spec.Doc
				if text == nil && !d.Lparen.IsValid() {
					text = d.Doc
				}
				t.wantDoc(report, f, spec.Name, spec.Name.Name, text)
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					report(t.named(f, name, name.Name), "the exported %s %s has no comment", kindOf(d.Tok), name.Name)
				}
			}
		}
	}
}

func kindOf(tok token.Token) string {
	if tok == token.CONST {
		return "constant"
	}
	return "variable"
}

// wantDoc reports name unless text is a comment that begins with it.
func (t *Tree) wantDoc(report reporter, f *File, name *ast.Ident, symbol string, text *ast.CommentGroup) {
	if text == nil || text.Text() == "" {
		report(t.named(f, name, symbol), "the exported %s has no comment", symbol)
		return
	}
	words := strings.Fields(text.Text())
	if slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	if len(words) == 0 || strings.TrimRight(words[0], ",.:;") != name.Name {
		report(t.named(f, name, symbol), "the comment of %s does not begin with its name", symbol)
	}
}

func (t *Tree) named(f *File, n ast.Node, symbol string) place {
	at := t.at(f, n)
	at.symbol = symbol
	return at
}
