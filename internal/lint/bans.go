package lint

import (
	"go/ast"
	"slices"
	"strings"
)

// ban is a rule about the use of some functions.
type ban struct {
	Rule
	pkg   string // import path, or "" for built-in functions
	names []string
	where func(use) bool // whether the ban holds for a use
}

// use is a mention of a function: a call or a value.
type use struct {
	pkg   *Package
	file  *File
	name  string     // of the function
	stack []ast.Node // from the file to the mention
}

// bans are ordered by what they protect: time, output, endings, state.
var bans = []ban{
	{
		Rule: Rule{
			Name:    "sleep",
			Because: "a pause is either too short on a slow machine or too long on a fast one, and Close has to wait for it",
			Instead: "wait for what must happen: a channel, a sync.Cond, a time.Timer in a select with ctx.Done()",
		},
		pkg: "time", names: []string{"Sleep"},
		where: func(u use) bool { return !u.file.Test },
	},
	{
		Rule: Rule{
			Name:    "sleep-in-test",
			Because: "a test that sleeps is slow where it passes and fails where the machine is slow",
			Instead: "testing/synctest, where sleeping costs nothing, or a helper called eventually that asks again until its patience ends",
		},
		pkg: "time", names: []string{"Sleep"},
		where: func(u use) bool {
			return u.file.Test && !u.inCallOf("synctest", "Test") && !strings.EqualFold(u.function(), "eventually")
		},
	},
	{
		Rule: Rule{
			Name:    "print",
			Because: "standard output belongs to the program that links us",
			Instead: "a *slog.Logger from the options, an io.Writer, or t.Log in tests",
		},
		pkg: "fmt", names: []string{"Print", "Printf", "Println"},
		where: func(u use) bool { return !u.inProgram() && !u.inExample() },
	},
	{
		Rule: Rule{
			Name:    "print-builtin",
			Because: "print and println are for debugging and may vanish from the language",
			Instead: "nothing, or a *slog.Logger from the options",
		},
		names: []string{"print", "println"},
		where: func(use) bool { return true },
	},
	{
		Rule: Rule{
			Name:    "panic",
			Because: "a panic in a library takes the whole service down for one request",
			Instead: "an error of the contract; for a bug invariants.Check, which panics only in checked builds",
		},
		names: []string{"panic"},
		where: func(u use) bool {
			return !u.file.Test && !within(u.pkg.Dir, "internal/invariants") && !strings.HasPrefix(u.function(), "Must")
		},
	},
	{
		Rule: Rule{
			Name:    "exit",
			Because: "os.Exit runs no deferred Close: what should become durable does not",
			Instead: "return an error; only a program and TestMain end the process",
		},
		pkg: "os", names: []string{"Exit"},
		where: func(u use) bool { return u.function() != "TestMain" && (u.file.Test || u.pkg.Name != "main") },
	},
	{
		Rule: Rule{
			Name:    "background",
			Because: "a context made inside a library cannot be cancelled by its caller",
			Instead: "take ctx as the first parameter; a handle that outlives calls makes its own in Open, ends it in Close, and is listed in Exceptions",
		},
		pkg: "context", names: []string{"Background", "TODO"},
		where: func(u use) bool { return !u.file.Test && !u.inProgram() },
	},
	{
		Rule: Rule{
			Name:    "raw-atomic",
			Because: "a variable that one place uses atomically and another does not is a race that the type does not prevent",
			Instead: "atomic.Int64, atomic.Uint64, atomic.Bool, atomic.Pointer[T]",
		},
		pkg: "sync/atomic", names: rawAtomics(),
		where: func(use) bool { return true },
	},
	{
		Rule: Rule{
			Name:    "skip",
			Because: "a test that skips itself passes without testing, and nobody notices",
			Instead: "make what the test needs, or fail; discarding an input of f.Fuzz or of a *rapid.T is fine",
		},
		pkg: "testing", names: []string{"Skip", "Skipf", "SkipNow"},
		where: func(u use) bool { return !u.inCallOf("f", "Fuzz") },
	},
}

func rawAtomics() []string {
	var names []string
	for _, verb := range []string{"Add", "And", "CompareAndSwap", "Load", "Or", "Store", "Swap"} {
		for _, kind := range []string{"Int32", "Int64", "Pointer", "Uint32", "Uint64", "Uintptr"} {
			names = append(names, verb+kind)
		}
	}
	return names
}

func banRules() []Rule {
	rules := []Rule{{
		Name:    "empty-interface",
		Because: "it has a name since Go 1.18",
		Instead: "any",
		find:    findEmptyInterfaces,
	}}
	for _, b := range bans {
		r := b.Rule
		r.find = b.find
		rules = append(rules, r)
	}
	return rules
}

func (b ban) find(t *Tree, report reporter) {
	for p, f := range t.files {
		walk(f.Syntax, func(stack []ast.Node) {
			n := stack[len(stack)-1]
			name, ok := b.mentioned(f, stack)
			if ok && b.where(use{pkg: p, file: f, name: name, stack: stack}) {
				report(t.at(f, n), "uses %s", name)
			}
		})
	}
}

// mentioned returns the name of the function that the last node of stack calls
// or takes, if b bans it.
func (b ban) mentioned(f *File, stack []ast.Node) (string, bool) {
	switch n := stack[len(stack)-1].(type) {
	case *ast.CallExpr:
		id, ok := n.Fun.(*ast.Ident)
		if ok && b.pkg == "" && slices.Contains(b.names, id.Name) {
			return id.Name, true
		}
	case *ast.SelectorExpr:
		x, ok := n.X.(*ast.Ident)
		if !ok || b.pkg == "" || !slices.Contains(b.names, n.Sel.Name) {
			return "", false
		}
		if f.imports[x.Name] == b.pkg || b.pkg == "testing" && isTesting(f, x.Name, stack) {
			return x.Name + "." + n.Sel.Name, true
		}
	}
	return "", false
}

// isTesting reports whether name is, where stack ends, a parameter of a type of
// package testing.
func isTesting(f *File, name string, stack []ast.Node) bool {
	for _, n := range slices.Backward(stack) {
		var params *ast.FieldList
		switch n := n.(type) {
		case *ast.FuncLit:
			params = n.Type.Params
		case *ast.FuncDecl:
			params = n.Type.Params
		default:
			continue
		}
		for _, field := range params.List {
			named := func(id *ast.Ident) bool { return id.Name == name }
			if slices.ContainsFunc(field.Names, named) {
				return packageOf(f, field.Type) == "testing"
			}
		}
	}
	return false
}

// packageOf returns the import path of a type written as p.T or *p.T.
func packageOf(f *File, t ast.Expr) string {
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if s, ok := t.(*ast.SelectorExpr); ok {
		if id, ok := s.X.(*ast.Ident); ok {
			return f.imports[id.Name]
		}
	}
	return ""
}

// walk calls visit for every node below root with the nodes from root to it.
func walk(root ast.Node, visit func(stack []ast.Node)) {
	var stack []ast.Node
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		visit(stack)
		return true
	})
}

// function returns the name of the function around the use, without its type.
func (u use) function() string {
	for _, n := range u.stack {
		if fn, ok := n.(*ast.FuncDecl); ok {
			return fn.Name.Name
		}
	}
	return ""
}

// inCallOf reports whether the use is in an argument of a call of x.name.
func (u use) inCallOf(x, name string) bool {
	for _, n := range u.stack {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			continue
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == name {
			if id, ok := s.X.(*ast.Ident); ok && id.Name == x {
				return true
			}
		}
	}
	return false
}

// inProgram reports whether the use is in a command or an example program.
func (u use) inProgram() bool {
	return u.pkg.Name == "main" || within(u.pkg.Dir, "cmd") || within(u.pkg.Dir, "examples")
}

// inExample reports whether the use is in an Example function of a test file.
func (u use) inExample() bool {
	return u.file.Test && strings.HasPrefix(u.function(), "Example")
}

func findEmptyInterfaces(t *Tree, report reporter) {
	for _, f := range t.files {
		walk(f.Syntax, func(stack []ast.Node) {
			i, ok := stack[len(stack)-1].(*ast.InterfaceType)
			if ok && len(i.Methods.List) == 0 {
				report(t.at(f, i), "writes the empty interface out")
			}
		})
	}
}
