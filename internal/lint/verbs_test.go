package lint

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// views are the packages whose writes have two forms; the comment of the root package states the rule.
var views = []string{"kv", "event", "topic", "alert"}

// oneForm are the exported functions of the views that break the rule of the two forms, and
// why. One that breaks it no longer fails the test.
var oneForm = map[string]string{
	"kv.Bucket.ExpectTo":          aCondition,
	"kv.Bucket.Alter":             ofSpaces,
	"kv.Bucket.Drop":              ofSpaces,
	"kv.DropTable":                ofSpaces,
	"kv.DropDatabase":             ofSpaces,
	"kv.Bucket.Import":            manyCommits,
	"kv.Bucket.ExplainConflict":   explains,
	"kv.Indexed.ExpectTo":         aCondition,
	"kv.Indexed.Alter":            ofSpaces,
	"kv.Indexed.Drop":             ofSpaces,
	"kv.Indexed.Import":           manyCommits,
	"kv.Indexed.Build":            manyCommits,
	"kv.Indexed.Rebuild":          manyCommits,
	"kv.Indexed.ExplainConflict":  explains,
	"kv.DropIndex":                ofSpaces,
	"kv.Bucket.Pending":           "it reads a batch, and adds nothing to it",
	"event.Store.ExpectTo":        aCondition,
	"event.Store.FailIf":          aCondition,
	"event.Store.Commit":          "it commits a batch of the caller, as Log.Commit does",
	"event.Store.Drop":            ofSpaces,
	"event.Store.Scavenge":        manyCommits,
	"event.Store.Subscribe":       ownCommits,
	"event.Store.Result":          "it reads a batch that was committed, and adds nothing to it",
	"event.Store.RetryParked":     ownCommits,
	"event.Store.SubscribeBatch":  ownCommits,
	"event.Store.ExplainConflict": explains,
	"topic.Open":                  "it starts the upkeep, which commits by itself",
	"topic.Catalog.Create":        ofCatalog,
	"topic.Catalog.Ensure":        ofCatalog,
	"topic.Catalog.Delete":        ofSpaces,
	"topic.Catalog.Alter":         ofCatalog,
	"topic.Catalog.SetConfig":     ofCatalog,
	"topic.Catalog.AddPartitions": ofCatalog,
	"topic.Catalog.Upkeep":        manyCommits,
	"topic.Topic.Compact":         manyCommits,
	"topic.Topic.DeleteRecords":   manyCommits,
	"topic.Topic.Producer":        "what it returns commits by itself, and combines the records of many calls",
	"alert.Open":                  "it creates the standard tables of a new server",
	"alert.Server.Close":          "it gives back the serials that were not needed",
	"alert.Server.Exec":           ofSQL,
	"alert.Server.Query":          ofSQL,
	"alert.Session.Exec":          ofSQL,
	"alert.Session.Query":         ofSQL,
	"alert.Session.Each":          ofSQL,
	"alert.Session.Together":      ofSQL,
	"alert.Session.InsertRows":    "it commits in pieces of Options.BatchRows; one row goes into a batch by Server.InsertTo",
}

const (
	aCondition  = "a condition alone, without a write that depends on it, does nothing at once"
	ofSpaces    = "spaces are altered and dropped by calls of the log, not by batches"
	manyCommits = "it commits as often as the size of the work demands, so it fits into no batch"
	ownCommits  = "it calls a handler for each event, and commits what the handler wrote with the checkpoint"
	explains    = "a method of mainstem.Explainer; it reads a batch that was refused"
	ofCatalog   = "the catalog checks names and renews its handles around the commit"
	ofSQL       = "a statement is SQL and may be any number of writes of any kind"
)

const rootPackage = "github.com/mainstemdev/mainstem"

// Every write of a view has two forms: Put(ctx, …) does it now, PutTo(b, …) writes it into a
// batch. A write is what comes to Commit, or to a call that changes a space.
func TestWritesHaveBothForms(t *testing.T) {
	var broken []string
	for _, v := range loadViews(t) {
		broken = append(broken, v.check()...)
	}
	used := map[string]bool{}
	for _, line := range broken {
		name, _, _ := strings.Cut(line, ":")
		if oneForm[name] == "" {
			t.Error(line)
		}
		used[name] = true
	}
	for name, because := range oneForm {
		if !used[name] {
			t.Errorf("%s does not break the rule any more: remove it from oneForm", name)
		}
		if len(because) < 20 {
			t.Errorf("%s breaks the rule without a reason", name)
		}
	}
}

// Each way to break the rule is found, and nothing else.
func TestBrokenFormsAreFound(t *testing.T) {
	const planted = `package planted

import (
	"context"

	"github.com/mainstemdev/mainstem"
)

type View struct{ log mainstem.Log }

func (v *View) commit(ctx context.Context, b *mainstem.Batch) error { _, err := v.log.Commit(ctx, b); return err }

func (v *View) Put(ctx context.Context, key string) error { return v.commit(ctx, mainstem.NewBatch()) }
func (v *View) PutTo(b *mainstem.Batch, key string)       {}

func (v *View) Add(ctx context.Context, n int) error                       { return v.commit(ctx, mainstem.NewBatch()) }
func (v *View) AddTo(ctx context.Context, b *mainstem.Batch, n int) error { _, err := v.log.Get(ctx, "s", nil); return err }

func (v *View) Get(ctx context.Context) error { _, err := v.log.Get(ctx, "s", nil); return err }

func (v *View) NowOnly(ctx context.Context) error { go func() { _ = v.commit(ctx, nil) }(); return nil }
func (v *View) IntoOnlyTo(b *mainstem.Batch)      {}
func (v *View) Unnamed(b *mainstem.Batch)         {}

func (v *View) Other(ctx context.Context, key string) error { return nil }
func (v *View) OtherTo(b *mainstem.Batch, key []byte)       {}

func (v *View) Wrong(ctx context.Context) error       { return nil }
func (v *View) WrongTo(b *mainstem.Batch) error       { return nil }
func (v *View) Reads(ctx context.Context) error       { return nil }
func (v *View) ReadsTo(b *mainstem.Batch)             { _, _ = v.log.Head(context.Background()) }
func (v *View) Silent(ctx context.Context) error      { return nil }
func (v *View) SilentTo(ctx context.Context, b *mainstem.Batch) {}

func Drop(ctx context.Context, log mainstem.Log) error { return log.DropSpace(ctx, "s") }
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "planted.go", planted, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got := newView(t, fset, exports(t, fset), "planted", []*ast.File{f}).check()
	want := []string{
		"planted.Drop: it writes at once, and there is no DropTo",
		"planted.View.IntoOnlyTo: there is no IntoOnly(ctx, …)",
		"planted.View.NowOnly: it writes at once, and there is no View.NowOnlyTo",
		"planted.View.OtherTo: its parameters are ([]byte), those of Other (string)",
		"planted.View.ReadsTo: it reads: it must take a context",
		"planted.View.SilentTo: it takes a context, so it reads: it must return an error",
		"planted.View.Unnamed: it takes a batch: call it View.UnnamedTo",
		"planted.View.WrongTo: it returns an error: mistakes go to b.Fail",
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// view is a package that was type-checked.
type view struct {
	name  string
	calls map[*types.Func][]*types.Func // what each function of the package calls or refers to
	funcs map[string]*types.Func        // the exported ones, by "Type.Method" or "Func"
}

// loadViews type-checks the views.
func loadViews(t *testing.T) (all []*view) {
	t.Helper()
	fset := token.NewFileSet()
	imp := exports(t, fset)
	for _, name := range views {
		paths, err := filepath.Glob(filepath.Join("../..", name, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var files []*ast.File
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		all = append(all, newView(t, fset, imp, name, files))
	}
	return all
}

// exports returns an importer of what the views import, from what the compiler wrote about it.
func exports(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, v := range views {
		args = append(args, "./"+v)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = file
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

func newView(t *testing.T, fset *token.FileSet, imp types.Importer, name string, files []*ast.File) *view {
	t.Helper()
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	if _, err := (&types.Config{Importer: imp}).Check(rootPackage+"/"+name, fset, files, info); err != nil {
		t.Fatal(err)
	}
	v := &view{name: name, calls: map[*types.Func][]*types.Func{}, funcs: map[string]*types.Func{}}
	for _, f := range files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				v.add(info, d)
			}
		}
	}
	return v
}

func (v *view) add(info *types.Info, d *ast.FuncDecl) {
	fn := info.Defs[d.Name].(*types.Func)
	if recv, name := recvName(fn), fn.Name(); fn.Exported() && (recv == "" || ast.IsExported(recv)) {
		v.funcs[strings.TrimPrefix(recv+"."+name, ".")] = fn
	}
	ast.Inspect(d, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if callee, ok := info.Uses[id].(*types.Func); ok {
				v.calls[fn] = append(v.calls[fn], callee.Origin())
			}
		}
		return true
	})
}

// recvName returns the name of the type that fn is a method of, or "".
func recvName(fn *types.Func) string {
	recv := fn.Signature().Recv()
	if recv == nil {
		return ""
	}
	typ := recv.Type()
	if p, ok := typ.(*types.Pointer); ok {
		typ = p.Elem()
	}
	if n, ok := typ.(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

// check returns what breaks the rule, as "view.Type.Method: what".
func (v *view) check() (broken []string) {
	for name, fn := range v.funcs {
		report := func(format string, args ...any) {
			broken = append(broken, fmt.Sprintf("%s.%s: ", v.name, name)+fmt.Sprintf(format, args...))
		}
		ctx, batch, _ := split(fn)
		now, into := strings.CutSuffix(name, "To")
		switch {
		case batch && !into:
			report("it takes a batch: call it %sTo", name)
		case batch:
			v.checkInto(fn, v.funcs[now], ctx, report)
		case v.reaches(fn, changes) && v.funcs[name+"To"] == nil:
			report("it writes at once, and there is no %sTo, which writes into a batch", name)
		}
	}
	slices.Sort(broken)
	return broken
}

// checkInto checks fn, which writes into a batch, and now, the form that writes at once.
func (v *view) checkInto(fn, now *types.Func, ctx bool, report func(format string, args ...any)) {
	results := fn.Signature().Results()
	fails := results.Len() > 0 && results.At(results.Len()-1).Type().String() == "error"
	switch {
	case ctx && !fails:
		report("it takes a context, so it reads: it must return an error")
	case !ctx && fails:
		report("it returns an error: mistakes go to b.Fail; if it reads, it takes a context")
	case !ctx && v.reaches(fn, reads):
		report("it reads: it must take a context and return an error")
	}
	if now == nil {
		report("there is no %s(ctx, …), which does it at once", strings.TrimSuffix(fn.Name(), "To"))
		return
	}
	_, _, want := split(fn)
	if ctx, _, got := split(now); !ctx || !slices.Equal(got, want) {
		report("its parameters are (%s), those of %s (%s)", strings.Join(want, ", "), now.Name(), strings.Join(got, ", "))
	}
}

// split reports whether fn takes a context and a batch, and returns its other parameters.
func split(fn *types.Func) (ctx, batch bool, others []string) {
	for p := range fn.Signature().Params().Variables() {
		switch typ := p.Type().String(); typ {
		case "context.Context":
			ctx = true
		case "*" + rootPackage + ".Batch":
			batch = true
		default:
			others = append(others, typ)
		}
	}
	return ctx, batch, others
}

// The calls of a log that change it, and those that read it.
var (
	changes = []string{"Commit", "CreateSpace", "AlterSpace", "DropSpace"}
	reads   = []string{"Get", "GetMany", "Scan", "Read", "Feed", "Head", "Space", "Spaces", "Snapshot"}
)

// reaches reports whether fn comes to one of the calls of a log.
func (v *view) reaches(fn *types.Func, calls []string) bool {
	seen := map[*types.Func]bool{}
	var walk func(fn *types.Func) bool
	walk = func(fn *types.Func) bool {
		if seen[fn] {
			return false
		}
		seen[fn] = true
		if fn.Pkg() != nil && fn.Pkg().Path() == rootPackage {
			recv := fn.Signature().Recv()
			return recv != nil && types.IsInterface(recv.Type()) && slices.Contains(calls, fn.Name())
		}
		return slices.ContainsFunc(v.calls[fn], walk)
	}
	return walk(fn)
}
