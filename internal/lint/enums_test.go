package lint

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// Every exported enumeration has a String method: in a log line or an error its
// number says nothing. An enumeration is an exported type of an integer with an
// exported constant of that type that begins with iota.
func TestEnumsHaveNames(t *testing.T) {
	for _, p := range load(t).Packages {
		if p.Name == "main" || strings.HasPrefix(p.Dir, "bench") || strings.HasPrefix(p.Dir, "interop") || strings.Contains("/"+p.Dir, "/internal") {
			continue
		}
		enums, named := map[string]bool{}, map[string]bool{}
		for _, f := range p.Code() {
			if f.Generated {
				continue
			}
			for _, d := range f.Syntax.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Name.Name == "String" && d.Recv != nil {
						if r, ok := d.Recv.List[0].Type.(*ast.Ident); ok {
							named[r.Name] = true
						}
					}
				case *ast.GenDecl:
					if enum := enumOf(d); enum != "" {
						enums[enum] = true
					}
				}
			}
		}
		for e := range enums {
			if !named[e] {
				t.Errorf("%s: %s has no String method: write one, as that of mainstem.Kind", p.Dir, e)
			}
		}
	}
}

// enumOf returns the type of the exported constants that d numbers with iota, or "".
func enumOf(d *ast.GenDecl) string {
	if d.Tok != token.CONST {
		return ""
	}
	for _, s := range d.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			continue
		}
		typ, ok := v.Type.(*ast.Ident)
		if iota, isName := v.Values[0].(*ast.Ident); ok && isName && iota.Name == "iota" && typ.IsExported() {
			return typ.Name
		}
	}
	return ""
}
