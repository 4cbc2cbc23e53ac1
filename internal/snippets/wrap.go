package snippets

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// piece is a declaration or a statement at the top of a fragment, with the comments and
// blank lines behind it.
type piece struct {
	line int // of the document
	text string
	kind token.Token // IMPORT, TYPE, CONST, FUNC, VAR; else ILLEGAL
}

// parses returns what is wrong with the syntax of a snippet, nil if nothing is.
func parses(s Snippet) *Problem {
	_, _, err := source(s, nil)
	if err == nil {
		return nil
	}
	p := Problem{s.Path, s.Line, err.Error()}
	if list := (scanner.ErrorList)(nil); errors.As(err, &list) {
		last := s.Line + strings.Count(strings.TrimSpace(s.Code), "\n") // the error may be at what stands around it
		p.Line, p.What = min(list[0].Pos.Line, last), list[0].Msg
	}
	return &p
}

// source returns the file that a snippet is compiled as, with these imports and
// declarations in front, one a line.
func source(s Snippet, front []string) (*token.FileSet, *ast.File, error) {
	code := elide(s.Code)
	if lex(code)[0].tok == token.PACKAGE {
		return parse(fmt.Sprintf("//line %s:%d\n%s", s.Path, s.Line, code))
	}
	pieces := append(split(s.Before, s.Line), split(code, s.Line)...)
	fset, f, err := parse(wrap(s.Path, pieces, front, ""))
	if err == nil && returnsOne(f) {
		return parse(wrap(s.Path, pieces, front, "error "))
	}
	return fset, f, err
}

func parse(text string) (*token.FileSet, *ast.File, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution)
	return fset, f, err
}

// wrap puts imports, types, constants and functions at the top of a file, and the
// statements into a function with this result. Variables are at the top if there are no
// statements; else they are in the function, where one may have the name of a package.
func wrap(path string, pieces []piece, front []string, result string) string {
	statements := slices.ContainsFunc(pieces, func(p piece) bool { return p.kind == token.ILLEGAL })
	var imports, top, body strings.Builder
	for _, f := range front {
		out := &top
		if strings.HasPrefix(f, "import ") {
			out = &imports
		}
		out.WriteString(f + "\n")
	}
	for _, p := range pieces {
		out := &top
		switch {
		case p.kind == token.IMPORT:
			out = &imports
		case p.kind == token.ILLEGAL, statements && p.kind == token.VAR:
			out = &body
		}
		fmt.Fprintf(out, "//line %s:%d\n%s\n", path, p.line, p.text)
	}
	file := "package snippet\n" + imports.String() + top.String()
	if !statements {
		return file
	}
	file += "func _() " + result + "{\n" + body.String()
	if result != "" {
		file += "panic(0)\n"
	}
	return file + "}\n"
}

// returnsOne reports whether the function of the statements returns one value somewhere.
func returnsOne(f *ast.File) (found bool) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "_" || fn.Recv != nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
				found = true
			}
			_, literal := n.(*ast.FuncLit)
			return !literal
		})
	}
	return found
}

// lexeme is a token of a fragment.
type lexeme struct {
	offset, line int // from 0
	tok          token.Token
	lit          string
}

func lex(code string) []lexeme {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(code))
	var s scanner.Scanner
	s.Init(file, []byte(code), func(token.Position, string) {}, 0) // the parser reports what is wrong
	var found []lexeme
	for {
		pos, tok, lit := s.Scan()
		found = append(found, lexeme{file.Offset(pos), file.Line(pos) - 1, tok, lit})
		if tok == token.EOF {
			return found
		}
	}
}

// elide replaces the dots that stand for code that is left out by as many blanks.
func elide(code string) string {
	out := []byte(code)
	lexemes := lex(code)
	before := lexeme{tok: token.SEMICOLON}
	for i, l := range lexemes {
		dots := ""
		switch {
		case l.tok == token.ILLEGAL && l.lit == "…":
			dots = l.lit
		case l.tok == token.ELLIPSIS && opens(before.tok) && closes(l, lexemes[i+1]):
			dots = "..."
		}
		copy(out[l.offset:], strings.Repeat(" ", len(dots)))
		before = l
	}
	return string(out)
}

// opens reports whether a statement or an argument may follow a token.
func opens(t token.Token) bool {
	return slices.Contains([]token.Token{token.SEMICOLON, token.LBRACE, token.COMMA, token.LPAREN, token.COLON}, t)
}

// closes reports whether nothing of a statement or an argument follows the dots.
func closes(dots, next lexeme) bool {
	return next.line > dots.line || slices.Contains([]token.Token{token.SEMICOLON, token.RBRACE, token.RPAREN, token.EOF}, next.tok)
}

// split cuts a fragment into pieces, at the lines that begin a declaration or a statement.
func split(code string, line int) []piece {
	lines := strings.Split(code, "\n")
	lexemes := lex(code)
	var pieces []piece
	var starts []int // line numbers of pieces
	depth, fresh, last := 0, true, -1
	for i, l := range lexemes {
		if depth == 0 && fresh && l.tok != token.EOF && l.line > last {
			pieces = append(pieces, piece{line: line + l.line, kind: kindOf(lexemes[i:])})
			starts = append(starts, l.line)
			last = l.line
		}
		switch l.tok {
		case token.LPAREN, token.LBRACK, token.LBRACE:
			depth++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			depth--
		}
		fresh = l.tok == token.SEMICOLON
	}
	for i := range pieces {
		end := len(lines)
		if i+1 < len(pieces) {
			end = starts[i+1]
		}
		pieces[i].text = strings.Join(lines[starts[i]:end], "\n")
	}
	return pieces
}

// kindOf returns the kind of the piece that begins with these tokens.
func kindOf(l []lexeme) token.Token {
	switch l[0].tok {
	case token.IMPORT, token.TYPE, token.VAR, token.CONST:
		return l[0].tok
	case token.FUNC:
		if named(l[1:]) {
			return token.FUNC
		}
	}
	return token.ILLEGAL
}

// named reports whether what follows func is a name, or a receiver and a name, and so
// not the parameters of a literal.
func named(l []lexeme) bool {
	if l[0].tok == token.IDENT {
		return true
	}
	depth := 0
	for i, x := range l {
		switch x.tok {
		case token.LPAREN:
			depth++
		case token.RPAREN:
			if depth--; depth == 0 {
				return i+2 < len(l) && l[i+1].tok == token.IDENT && (l[i+2].tok == token.LPAREN || l[i+2].tok == token.LBRACK)
			}
		}
	}
	return false
}
