package lint

import "go/ast"

const goleak = "go.uber.org/goleak"

func leakRules() []Rule {
	return []Rule{{
		Name:    "leak-check",
		Because: "a goroutine that outlives its owner holds files, memory and locks, and no other test notices",
		Instead: "func TestMain(m *testing.M) { goleak.VerifyTestMain(m) } in the tests of a package that starts goroutines",
		find:    findUncheckedGoroutines,
	}}
}

// findUncheckedGoroutines reports packages that start goroutines and whose tests
// do not look for those left over.
func findUncheckedGoroutines(t *Tree, report reporter) {
	for _, p := range t.Packages {
		if checksLeaks(p) {
			continue
		}
		for _, f := range p.Code() {
			if start := startsGoroutine(f); start != nil {
				report(t.at(f, start), "package %s starts goroutines, and its tests do not look for those left over", p.Name)
			}
		}
	}
}

func checksLeaks(p *Package) bool {
	for _, f := range p.Tests() {
		for _, imported := range f.imports {
			if imported == goleak {
				return true
			}
		}
	}
	return false
}

// startsGoroutine returns the first go statement of a file, or call of a method
// Go as sync.WaitGroup and errgroup.Group have it.
func startsGoroutine(f *File) (start ast.Node) {
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			start = n
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
				start = n
			}
		}
		return start == nil
	})
	return start
}
