package lint

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// sound is a small repository that breaks no rule.
var sound = map[string]string{
	"go.mod": "module github.com/mainstemdev/mainstem\n\ngo 1.26\n\n" +
		"require example.org/explained v1.0.0\n\nrequire (\n\texample.org/far v1.0.0 // indirect\n)\n",
	"LICENSE": "Apache License\nVersion 2.0, January 2004\nEND OF TERMS AND CONDITIONS\n" +
		"See the License for the specific language governing permissions and\nlimitations under the License.\n",
	"README.md":                           "# Sound\n\n```sh\n$ go test ./...\n```\n\nSee [the decisions](docs/decisions/0001-dependencies.md#why) and [docs](docs).\n",
	"Makefile":                            "test: ## run the tests\n\tgo test ./...\n",
	".ci/run":                             "#!/usr/bin/env bash\nreadme_test=\"go test ./...\"\n",
	"docs/decisions/0002-x.md":            "# 0002: X\n\nSee [dependencies](0001-dependencies.md).\n",
	"docs/decisions/0001-dependencies.md": "# 0001: Dependencies\n\n- `example.org/explained`: it is needed.\n",
	"doc.go":                              "// Package mainstem is sound.\npackage mainstem\n",
	"log.go":                              "package mainstem\n\n// Log is sound.\ntype Log struct{}\n",
	"example_test.go":                     example("mainstem"),
}

// example is a test file with an example that runs.
func example(name string) string {
	return "package " + name + "_test\n\nimport \"fmt\"\n\nfunc Example() {\n\tfmt.Println(1)\n\t// Output: 1\n}\n"
}

// bucket is a file of package kv with the given imports and body.
func bucket(body string, imports ...string) string {
	return source("kv", body, imports...)
}

func source(name, body string, imports ...string) string {
	var s strings.Builder
	title := "Package " + name
	if name == "main" {
		title = "Command mainstem"
	}
	s.WriteString("// " + title + " is planted.\npackage " + name + "\n\n")
	for _, i := range imports {
		s.WriteString("import \"" + i + "\"\n")
	}
	return s.String() + body + "\n"
}

func with(changes map[string]string) map[string]string {
	files := maps.Clone(sound)
	maps.Copy(files, changes)
	return files
}

// without returns the sound repository without one file.
func without(name string) map[string]string {
	return map[string]string{name: ""}
}

// plant breaks one rule in one place.
type plant struct {
	rule  string
	files map[string]string // changed or added; an empty one is removed
	want  string            // how the only finding begins; "" if the rule allows it
}

const module = "github.com/mainstemdev/mainstem"

var plants = []plant{
	{"import-table", map[string]string{"kv/a.go": bucket("", module+"/engine/pebblelog")}, "kv/a.go:4: the kv view imports " + module + "/engine/pebblelog"},
	{"import-table", map[string]string{"kv/deep/a.go": source("deep", "", module+"/event")}, "kv/deep/a.go:4: the kv view imports"},
	{"import-table", map[string]string{"engine/pebblelog/a.go": source("pebblelog", "", module+"/kv")}, "engine/pebblelog/a.go:4: the embedded engine imports"},
	{"import-table", map[string]string{"engine/pebblelog/a.go": source("pebblelog", "", module+"/engine/remotelog")}, "engine/pebblelog/a.go:4: the embedded engine imports"},
	{"import-table", map[string]string{"a.go": "package mainstem\n\nimport \"" + module + "/codec\"\n"}, "a.go:3: the contract imports"},
	{"import-table", map[string]string{"a.go": "package mainstem\n\nimport \"example.org/explained\"\n"}, "a.go:3: the contract imports"},
	{"import-table", map[string]string{"novel/a.go": source("novel", "")}, "novel: the folder is in no layer"},
	{"import-table", map[string]string{"kv/a.go": bucket("", "fmt", module, module+"/codec", module+"/kv/deep")}, ""},
	{"import-table", map[string]string{"kv/a_test.go": bucket("", module+"/engine/pebblelog")}, ""},
	{"import-table", map[string]string{"server/a.go": source("server", "", module+"/topic", module+"/engine/pebblelog")}, ""},
	{"import-table", map[string]string{"server/a.go": source("server", "", module+"/actor/cluster")}, "server/a.go:4: the server imports"},
	{"import-table", map[string]string{"server/a.go": source("server", "", module+"/alert/omnibus")}, "server/a.go:4: the server imports"},
	{"import-table", map[string]string{"server/a.go": source("server", "", module+"/wire/kafka")}, "server/a.go:4: the server imports"},

	{"unwanted-import", map[string]string{"kv/a.go": bucket("", "math/rand")}, "kv/a.go:4: imports math/rand"},
	{"unwanted-import", map[string]string{"kv/a_test.go": bucket("", "github.com/stretchr/testify/require")}, "kv/a_test.go:4: imports github.com/stretchr/testify/require"},
	{"unwanted-import", map[string]string{"kv/a.go": bucket("", "encoding/gob")}, "kv/a.go:4: imports encoding/gob"},
	{"unwanted-import", map[string]string{"engine/pebblelog/a.go": source("pebblelog", "", "github.com/cockroachdb/pebble/vfs")}, "engine/pebblelog/a.go:4: imports github.com/cockroachdb/pebble/vfs"},
	{"unwanted-import", map[string]string{"kv/a_test.go": bucket("", "log")}, "kv/a_test.go:4: imports log"},
	{"unwanted-import", map[string]string{"kv/example_x_test.go": bucket("", "log"), "examples/a/a.go": source("main", "", "log")}, ""},
	{"unwanted-import", map[string]string{"codec/a.go": source("codec", "", "encoding/gob", "math/rand/v2", "log/slog", "github.com/cockroachdb/pebble/v2/vfs")}, ""},

	{"sleep", map[string]string{"kv/a.go": bucket("func f() { time.Sleep(1) }", "time")}, "kv/a.go:5: in f: uses time.Sleep"},
	{"sleep", map[string]string{"kv/a.go": bucket("type t int\nfunc (*t) f() { g(time.Sleep) }", "time")}, "kv/a.go:6: in t.f: uses time.Sleep"},
	{"sleep", map[string]string{"kv/a.go": bucket("func f() { go func() { clock.Sleep(1) }() }", `time"; import clock "time`)}, "kv/a.go:5: in f: uses clock.Sleep"},
	{"sleep", map[string]string{"kv/a.go": bucket("func f() { time.Now() }", "time")}, ""},

	{"sleep-in-test", map[string]string{"kv/a_test.go": bucket("func TestA(t *testing.T) { time.Sleep(1) }", "time", "testing")}, "kv/a_test.go:6: in TestA: uses time.Sleep"},
	{"sleep-in-test", map[string]string{"kv/a_test.go": bucket("func TestA(t *testing.T) {\n\tsynctest.Test(t, func(t *testing.T) { time.Sleep(1) })\n}\nfunc eventually() { time.Sleep(1) }", "time", "testing", "testing/synctest")}, ""},

	{"pause-in-test", map[string]string{"kv/a_test.go": bucket("func pass() { <-time.After(1) }", "time")}, "kv/a_test.go:5: in pass: waits for a timer"},
	{"pause-in-test", map[string]string{"kv/a_test.go": bucket("func f(t *time.Ticker) { now := <-t.C; _ = now }", "time")}, "kv/a_test.go:5: in f: waits for a timer"},
	{"pause-in-test", map[string]string{"kv/a_test.go": bucket("func f() {\n\tselect {\n\tcase <-clock.Tick(1):\n\t}\n}", `time"; import clock "time`)}, "kv/a_test.go:7: in f: waits for a timer"},
	{"pause-in-test", map[string]string{"kv/a_test.go": bucket("func f(c chan int) {\n\tselect {\n\tcase <-c:\n\t\t<-time.After(1)\n\tcase c <- 1:\n\t}\n}", "time")}, "kv/a_test.go:8: in f: waits for a timer"},
	{"pause-in-test", map[string]string{"kv/a_test.go": bucket("func f(c chan int) {\n\tselect {\n\tcase <-c:\n\tcase <-time.After(1):\n\t}\n}\nfunc g() { synctest.Test(nil, func() { <-time.After(1) }) }", "time", "testing/synctest"), "kv/b.go": bucket("func f() { <-time.After(1) }", "time")}, ""},

	{"eventually-loops", map[string]string{"kv/a_test.go": bucket("func eventually() { time.Sleep(1) }", "time")}, "kv/a_test.go:5: in eventually: sleeps once"},
	{"eventually-loops", map[string]string{"kv/a_test.go": bucket("func eventually() { for { time.Sleep(1) } }", "time")}, ""},

	{"print", map[string]string{"kv/a.go": bucket("func f() { fmt.Printf(``) }", "fmt")}, "kv/a.go:5: in f: uses fmt.Printf"},
	{"print", map[string]string{"kv/a_test.go": bucket("func f() { fmt.Println(1) }", "fmt")}, "kv/a_test.go:5: in f: uses fmt.Println"},
	{"print", map[string]string{"cmd/mainstem/a.go": source("main", "func f() { fmt.Println(1) }", "fmt"), "kv/a_test.go": bucket("func ExampleA() { fmt.Println(1) }", "fmt")}, ""},

	{"print-builtin", map[string]string{"kv/a_test.go": bucket("func f() { println(1) }")}, "kv/a_test.go:4: in f: uses println"},
	{"print-builtin", map[string]string{"kv/a.go": bucket("func f() { x.println(1) }")}, ""},

	{"panic", map[string]string{"kv/a.go": bucket("func f() { panic(1) }")}, "kv/a.go:4: in f: uses panic"},
	{"panic", map[string]string{"kv/a.go": bucket("func MustF() { panic(1) }"), "kv/a_test.go": bucket("func f() { panic(1) }"), "internal/invariants/a.go": source("invariants", "func f() { panic(1) }")}, ""},

	{"exit", map[string]string{"kv/a.go": bucket("func f() { os.Exit(1) }", "os")}, "kv/a.go:5: in f: uses os.Exit"},
	{"exit", map[string]string{"kv/a_test.go": bucket("func TestA(t *testing.T) { os.Exit(1) }", "os", "testing")}, "kv/a_test.go:6: in TestA: uses os.Exit"},
	{"exit", map[string]string{"cmd/mainstem/a.go": source("main", "func main() { os.Exit(1) }", "os"), "kv/a_test.go": bucket("func TestMain(m *testing.M) { os.Exit(m.Run()) }", "os", "testing")}, ""},

	{"background", map[string]string{"kv/a.go": bucket("var x = context.Background()", "context")}, "kv/a.go:5: uses context.Background"},
	{"background", map[string]string{"kv/a.go": bucket("func f() { context.TO"+"DO() }", "context")}, "kv/a.go:5: in f: uses context.TO" + "DO"},
	{"background", map[string]string{"cmd/mainstem/a.go": source("main", "var x = context.Background()", "context"), "kv/a_test.go": bucket("var x = context.Background()", "context")}, ""},

	{"raw-atomic", map[string]string{"kv/a.go": bucket("var n int64\nfunc f() { atomic.AddInt64(&n, 1) }", "sync/atomic")}, "kv/a.go:6: in f: uses atomic.AddInt64"},
	{"raw-atomic", map[string]string{"kv/a.go": bucket("var n atomic.Int64\nfunc f() { n.Add(1) }", "sync/atomic")}, ""},

	{"skip", map[string]string{"kv/a_test.go": bucket("func TestA(t *testing.T) { t.Skip() }", "testing")}, "kv/a_test.go:5: in TestA: uses t.Skip"},
	{"skip", map[string]string{"kv/a_test.go": bucket("func f(log testing.TB) { func() { log.Skipf(``) }() }", "testing")}, "kv/a_test.go:5: in f: uses log.Skipf"},
	{"skip", map[string]string{"kv/a_test.go": bucket("func TestA(t *testing.T) { rapid.Check(t, func(t *rapid.T) { t.Skip() }) }", "testing", "pgregory.net/rapid")}, ""},
	{"skip", map[string]string{"kv/a_test.go": bucket("func FuzzA(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { t.Skip() }) }", "testing")}, ""},

	{"leak-check", map[string]string{"kv/a.go": bucket("func f() { go f() }")}, "kv/a.go:4: in f: package kv starts goroutines"},
	{"leak-check", map[string]string{"kv/a.go": bucket("func f(wg *sync.WaitGroup) { wg.Go(nil) }", "sync"), "kv/a_test.go": bucket("", "testing")}, "kv/a.go:5: in f: package kv starts goroutines"},
	{"leak-check", map[string]string{"kv/a.go": bucket("func f() { go f() }"), "kv/a_test.go": bucket("", "go.uber.org/goleak"), "event/a_test.go": source("event", "func f() { go f() }")}, ""},

	{"empty-interface", map[string]string{"kv/a.go": bucket("var x interface{}")}, "kv/a.go:4: writes the empty interface out"},
	{"empty-interface", map[string]string{"kv/a.go": bucket("var x any\nvar y interface{ F() }")}, ""},

	{"package-comment", map[string]string{"kv/a.go": "package kv\n"}, "kv: package kv has no package comment"},
	{"package-comment", map[string]string{"kv/a.go": "// Package kv is apart.\n\npackage kv\n"}, "kv/a.go:1: a blank line stands between"},
	{"package-comment", map[string]string{"kv/a.go": "// Copyright: everybody.\npackage kv\n"}, `kv/a.go:1: the package comment does not begin with "Package kv"`},
	{"package-comment", map[string]string{"kv/a.go": bucket(""), "kv/b.go": bucket("")}, "kv/b.go:1: package kv has a second package comment; the first is in kv/a.go"},
	{"package-comment", map[string]string{"cmd/mainstem/a.go": "// Package main is a program.\npackage main\n"}, `cmd/mainstem/a.go:1: the package comment does not begin with "Command mainstem"`},
	{"package-comment", map[string]string{"kv/a.go": "//go:build linux\n\n" + bucket(""), "kv/a_test.go": "package kv_test\n", "cmd/mainstem/a.go": source("main", "")}, ""},

	{"example", map[string]string{"kv/a.go": bucket("const a = 1")}, "kv: package kv has no example that runs"},
	{"example", map[string]string{"kv/a.go": bucket("const a = 1"), "kv/a_test.go": bucket("func Example() {\n}")}, "kv: package kv has no example that runs"},
	{"example", map[string]string{"kv/a.go": bucket("const a = 1"), "kv/example_test.go": example("kv"), "internal/format/a.go": source("format", "const a = 1"), "wire/rpc/a.go": "// Code generated by x. DO NOT EDIT.\n\npackage rpc\n\nconst a = 1\n"}, ""},

	{"doc-comment", map[string]string{"kv/a.go": bucket("func Get() {}")}, "kv/a.go:4: in Get: the exported Get has no comment"},
	{"doc-comment", map[string]string{"kv/a.go": bucket("// This gets.\nfunc Get() {}")}, "kv/a.go:5: in Get: the comment of Get does not begin with its name"},
	{"doc-comment", map[string]string{"kv/a.go": bucket("// T is.\ntype T[K any] int\nfunc (*T[K]) Get() {}")}, "kv/a.go:6: in T.Get: the exported T.Get has no comment"},
	{"doc-comment", map[string]string{"kv/a.go": bucket("// Group.\ntype (\n\tT int\n)")}, "kv/a.go:6: in T: the exported T has no comment"},
	{"doc-comment", map[string]string{"kv/a.go": bucket("const (\n\tA = 1 // A is.\n\tB = 2\n)")}, "kv/a.go:6: in B: the exported constant B has no comment"},
	{"doc-comment", map[string]string{"kv/a.go": bucket("// The As.\nconst (\n\tA = 1\n)\n// A T is.\ntype T int\ntype t int\nfunc (t) Get() {}"), "internal/format/a.go": source("format", "func Get() {}")}, ""},

	{"file-size", map[string]string{"kv/a.go": bucket(strings.Repeat("\n", maxFileLines))}, "kv/a.go: has 604 lines"},
	{"file-size", map[string]string{"kv/a.go": bucket(strings.Repeat("\n", maxFileLines-4)), "kv/b.go": "// Code generated by x. DO NOT EDIT.\n\n" + bucket(strings.Repeat("\n", maxFileLines))}, ""},

	{"function-size", map[string]string{"kv/a.go": bucket("func f() {" + strings.Repeat("\n", maxFunctionLines) + "}")}, "kv/a.go:4: in f: f has 81 lines"},
	{"function-size", map[string]string{"kv/a_test.go": bucket("func f() {" + strings.Repeat("\n", maxTestLines) + "}")}, "kv/a_test.go:4: in f: f has 121 lines"},
	{"function-size", map[string]string{"kv/a.go": bucket("func f() {" + strings.Repeat("\n", maxFunctionLines-1) + "}"), "kv/a_test.go": bucket("func f() {" + strings.Repeat("\n", maxTestLines-1) + "}")}, ""},

	{"package-name", map[string]string{"kv/util/a.go": source("util", "")}, "kv/util: the name util does not say"},
	{"package-name", map[string]string{"kv/utility/a.go": source("utility", "")}, ""},

	{"promise", map[string]string{"kv/a.go": bucket("// TO" + "DO: later.\nvar x = 1")}, "kv/a.go:4: a comment says TO" + "DO"},
	{"promise", map[string]string{"docs/a.md": "FIX" + "ME\n"}, "docs/a.md:1: the line says FIX" + "ME"},
	{"promise", map[string]string{"kv/a.go": bucket("// ErrXX"+"X is a name.\nvar x = context.TO"+"DO()", "context"), "kv/testdata/a.txt": "TO" + "DO\n"}, ""},

	{"machine-path", map[string]string{"docs/a.md": "See `/ho" + "me/ann/notes`.\n"}, "docs/a.md:1: names the path /ho" + "me/a"},
	{"machine-path", map[string]string{"kv/a.go": bucket(`const x = "/tmp/ba` + `sh_jobs"`)}, "kv/a.go:4: names the path /tmp/ba"},
	{"machine-path", map[string]string{"kv/testdata/a.txt": "open /wo" + "rk/x\n"}, "kv/testdata/a.txt:1: names the path /wo" + "rk/x"},
	{"machine-path", map[string]string{".git": "gitdir: /wo" + "rk/x/.git/worktrees/y\n"}, ""},
	{"machine-path", map[string]string{"docs/a.md": "https://example.org/wo" + "rk/x, a/wo" + "rk/b, /tmp/x, ./ho" + "me/y\n"}, ""},

	{"dead-link", map[string]string{"docs/a.md": "[x](../READ.md)\n"}, "docs/a.md:1: links to ../READ.md"},
	{"dead-link", map[string]string{"docs/a.md": "```go\nOpen[T](log)\n```\n[`T`](b.md)\n"}, "docs/a.md:4: links to b.md"},
	{"dead-link", map[string]string{"docs/a.md": "![x](b.png) ![y](c.png)\n", "docs/b.png": "\x89PNG\x00"}, "docs/a.md:1: links to c.png"},
	{"dead-link", map[string]string{"docs/a.md": "`Open[T](log)`\n```\nOpen[T](log)\n"}, ""},
	{"dead-link", map[string]string{"docs/a.md": "[x](../README.md) [y](#here) [z](https://example.org/a) [d](decisions/)\n"}, ""},

	{"long-line", map[string]string{"docs/a.md": "x\n" + strings.Repeat("é ", 60) + "y\n"}, "docs/a.md:2: has 121 characters"},
	{"long-line", map[string]string{"docs/a.md": "<!-- short -->\n" + strings.Repeat("x ", 61) + "\n"}, "docs/a.md:2: has 122 characters"},
	{"long-line", map[string]string{"docs/a.md": "```sh\n", "docs/b.md": strings.Repeat("x ", 61) + "\n"}, "docs/b.md:1: has 122 characters"},
	{"long-line", map[string]string{"docs/a.md": strings.Repeat("é ", 60) + "\n| " + strings.Repeat("x ", 90) + "|\n```sh\n" + strings.Repeat("x ", 90) + "\n```\n<!-- x\n" + strings.Repeat("x ", 90) + "-->\n" + strings.Repeat("x", 130) + "\n"}, ""},

	{"decision-title", map[string]string{"docs/decisions/0003-x.md": "# 3. X\n"}, "docs/decisions/0003-x.md:1: the title does not begin with \"# 0003: \""},
	{"decision-title", map[string]string{"docs/decisions/0002-y.md": "# 0002: Y\n"}, "docs/decisions/0002-y.md: docs/decisions/0002-x.md has the same number"},
	{"decision-title", map[string]string{"docs/decisions/x.md": "# 0003: X\n"}, "docs/decisions/x.md: the name is not of the form"},
	{"decision-title", map[string]string{"docs/decisions/0003-x.md": "# 0003: X\n", "docs/a.md": "# A\n"}, ""},

	{"retired-word", map[string]string{"new/a.go": source("new", "func f() { settleAll() }")}, "new/a.go:4: settle, settled, settles, settling is retired"},
	{"retired-word", map[string]string{"kv/a_test.go": bucket("var x = t.HTTPGhost")}, "kv/a_test.go:4: ghost, ghosts is retired"},
	{"retired-word", map[string]string{"kv/a.go": bucket("// It waits for\n// ever, or in vain.\nvar x = 1")}, "kv/a.go:4: vain is retired"},
	{"retired-word", map[string]string{"new/a.md": "It is kept\nfor ever.\n"}, "new/a.md:2: forever is retired"},
	{"retired-word", map[string]string{"engine/pebblelog/deep/a.go": source("deep", "var headsCache int")}, "engine/pebblelog/deep/a.go:4: heads is retired"},
	{"retired-word", map[string]string{"kv/a.go": bucket("var header, unsettled, remarks int\n\n// It is settlement.\nvar y = 1"), "new/a.md": "`for ever`\n| for ever |\n", "docs/words.md": "for ever\n"}, ""},

	{"licence", without("LICENSE"), `LICENSE: lacks "Apache License"`},
	{"licence", map[string]string{"LICENSE": strings.ReplaceAll(sound["LICENSE"], "END", "")}, `LICENSE: lacks "END OF TERMS`},

	{"dependency", map[string]string{"go.mod": sound["go.mod"] + "\nrequire (\n\texample.org/new v1.2.3\n)\n"}, "go.mod:12: example.org/new is not explained"},
	{"dependency", map[string]string{"go.mod": sound["go.mod"] + "\ntool example.org/far/cmd/x\n"}, "go.mod:11: example.org/far/cmd/x is not explained"},
	{"dependency", map[string]string{"interop/go.mod": "module " + module + "/interop\n\nrequire " + module + " v0.0.0\nrequire example.org/other v1.0.0\n"}, "interop/go.mod:4: example.org/other is not explained"},

	{"test-command", without("README.md"), `README.md: no line of it is the command "go test ./..."`},
	{"test-command", map[string]string{"README.md": "Run `go test ./...` often.\n"}, "README.md: no line of it is the command"},
	{"test-command", map[string]string{"Makefile": "test:\n\tgo test -short ./...\n"}, "Makefile: no target runs the command"},
	{"test-command", map[string]string{".ci/run": "go test ./...\n"}, ".ci/run: has no line readme_test="},

	{"workspace", map[string]string{"go.work": "go 1.26\n\nuse .\n"}, "go.work: is a workspace"},
	{"workspace", map[string]string{"interop/go.work.sum": "example.org/a v1.0.0 h1:x=\n"}, "interop/go.work.sum: is a workspace"},
}

func check(t *testing.T, files map[string]string, exceptions ...Exception) (findings []Finding, stale []Exception) {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		if text != "" {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	tree, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return Check(tree, Rules(), exceptions)
}

func TestSoundRepositoryBreaksNoRule(t *testing.T) {
	findings, _ := check(t, sound)
	for _, f := range findings {
		t.Error(f)
	}
}

func TestRulesFindWhatIsPlanted(t *testing.T) {
	for _, p := range plants {
		all, _ := check(t, with(p.files))
		found := slices.DeleteFunc(all, func(f Finding) bool { return f.Rule != p.rule })
		switch {
		case p.want == "" && len(found) > 0:
			t.Errorf("%s forbids what it should allow: %s", p.rule, found[0])
		case p.want != "" && len(found) == 0:
			t.Errorf("%s does not find %q", p.rule, p.want)
		case p.want != "" && !strings.HasPrefix(found[0].String(), p.want):
			t.Errorf("%s finds %q, want %q...", p.rule, found[0], p.want)
		}
	}
}

func TestEveryRuleHasAPlantedViolationAndReasons(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if seen[r.Name] {
			t.Errorf("two rules are called %s", r.Name)
		}
		seen[r.Name] = true
		if r.Because == "" || r.Instead == "" {
			t.Errorf("rule %s does not say why, or what to write instead", r.Name)
		}
		if !slices.ContainsFunc(plants, func(p plant) bool { return p.rule == r.Name && p.want != "" }) {
			t.Errorf("nothing is planted against rule %s: it may be unable to fail", r.Name)
		}
	}
	for _, p := range plants {
		if !seen[p.rule] {
			t.Errorf("%q is planted against %s, which is no rule", p.want, p.rule)
		}
	}
}

func TestExceptionsCoverOnePlace(t *testing.T) {
	files := with(map[string]string{
		"kv/a.go": bucket("func f() { panic(1) }\nfunc g() { panic(1) }"),
		"kv/b.go": "package kv\n\nfunc h() { panic(1) }\n",
	})
	for _, c := range []struct {
		where string
		left  int
		stale bool
	}{
		{"kv/a.go:f", 2, false},
		{"kv/a.go", 1, false},
		{"kv", 0, false},
		{"kv/a.go:h", 3, true},
		{"k", 3, true},
	} {
		findings, stale := check(t, files, Exception{Rule: "panic", Where: c.where, Because: "planted"})
		findings = slices.DeleteFunc(findings, func(f Finding) bool { return f.Rule != "panic" })
		if len(findings) != c.left || len(stale) > 0 != c.stale {
			t.Errorf("an exception for %s leaves %v, stale %v; want %d findings, stale %v", c.where, findings, stale, c.left, c.stale)
		}
	}
}

func TestLoadRefusesBrokenCodeAndLeavesOutData(t *testing.T) {
	if _, err := Load(fstest.MapFS{"a.go": {Data: []byte("package")}}); err == nil {
		t.Error("a file that is not Go was loaded")
	}
	tree, err := Load(fstest.MapFS{
		"kv/testdata/a.go": {Data: []byte("no Go at all")},
		".hidden/a.go":     {Data: []byte("no Go at all")},
		"data.bin":         {Data: []byte{'a', 0}},
		"large.txt":        {Data: make([]byte, maxText+1)},
		".ci/run":          {Data: []byte("x\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(tree.Texts))
	if want := []string{".ci/run", "kv/testdata/a.go"}; !slices.Equal(got, want) || len(tree.Packages) != 0 {
		t.Errorf("texts %v, packages %v; want %v and none", got, tree.Packages, want)
	}
}
