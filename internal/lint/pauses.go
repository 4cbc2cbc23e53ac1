package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// pauseRules find what sleeps under another name than time.Sleep.
func pauseRules() []Rule {
	return []Rule{{
		Name:    "pause-in-test",
		Because: "to wait for a timer and nothing else is to sleep",
		Instead: "testing/synctest, or a select with what the test waits for, internal/testkit, or a helper called eventually that asks again",
		find:    findPauses,
	}, {
		Name:    "eventually-loops",
		Because: "a helper called eventually may sleep because it asks again; one that sleeps once only hides the sleep",
		Instead: "a loop that ends when what it asks for is so",
		find:    findSleepsOutsideLoops,
	}}
}

// findPauses reports, in tests, receiving from time.After, time.Tick or the channel of a
// timer where nothing else can be received: as a statement or a value, or in a select
// with no other case.
func findPauses(t *Tree, report reporter) {
	for p, f := range t.files {
		if !f.Test {
			continue
		}
		walk(f.Syntax, func(stack []ast.Node) {
			u := use{pkg: p, file: f, stack: stack}
			receive, ok := stack[len(stack)-1].(*ast.UnaryExpr)
			if !ok || receive.Op != token.ARROW || !isTimer(f, receive.X) || hasOtherCases(stack) {
				return
			}
			if !u.inCallOf("synctest", "Test") && !u.inCallOf("actortest", "Run") && !strings.EqualFold(u.function(), "eventually") {
				report(t.at(f, receive), "waits for a timer and nothing else")
			}
		})
	}
}

// isTimer reports whether x is time.After(d), time.Tick(d) or timer.C.
func isTimer(f *File, x ast.Expr) bool {
	if call, ok := x.(*ast.CallExpr); ok {
		s, ok := call.Fun.(*ast.SelectorExpr)
		return ok && packageOf(f, s) == "time" && (s.Sel.Name == "After" || s.Sel.Name == "Tick")
	}
	s, ok := x.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "C"
}

// hasOtherCases reports whether the last node of stack is what a case of a select
// receives from, beside other cases.
func hasOtherCases(stack []ast.Node) bool {
	for i, n := range slices.Backward(stack) {
		switch n := n.(type) {
		case *ast.CommClause:
			if i+1 < len(stack) && stack[i+1] != n.Comm {
				return false // it is in the body of the case
			}
			body, ok := stack[i-1].(*ast.BlockStmt)
			return ok && len(body.List) > 1
		case *ast.BlockStmt, *ast.FuncLit:
			return false
		}
	}
	return false
}

// findSleepsOutsideLoops reports calls of time.Sleep in tests, in functions called
// eventually, that are in no loop.
func findSleepsOutsideLoops(t *Tree, report reporter) {
	for _, f := range t.files {
		if !f.Test {
			continue
		}
		walk(f.Syntax, func(stack []ast.Node) {
			s, ok := stack[len(stack)-1].(*ast.SelectorExpr)
			if !ok || s.Sel.Name != "Sleep" || packageOf(f, s) != "time" || !strings.EqualFold((use{stack: stack}).function(), "eventually") {
				return
			}
			if !slices.ContainsFunc(stack, isLoop) {
				report(t.at(f, s), "sleeps once")
			}
		})
	}
}

func isLoop(n ast.Node) bool {
	switch n.(type) {
	case *ast.ForStmt, *ast.RangeStmt:
		return true
	}
	return false
}
