package snippets

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// packages returns a compiler with the packages of this module.
var packages = sync.OnceValues(func() (*compiler, error) {
	c := &compiler{dir: "../..", root: "../.."}
	return c, c.listNames()
})

// compiled returns what is wrong with a document.
func compiled(t *testing.T, path, text string) []Problem {
	t.Helper()
	c, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	read := comments
	if strings.HasSuffix(path, ".md") {
		read = markdown
	}
	found, problems := read(path, []byte(text))
	bad, err := c.compile(found)
	if err != nil {
		t.Fatal(err)
	}
	return append(problems, bad...)
}

// document is a Markdown document with one snippet, whose code begins at line 3.
func document(code string) string { return "Text.\n```go\n" + code + "\n```\n" }

func TestWhatCompiles(t *testing.T) {
	for name, code := range map[string]string{
		"a program":                "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }",
		"a program with a comment": "// Command x is one.\npackage main\n\nimport \"fmt\"\n\nfunc f() int { return 1 }",
		"statements":               "users, err := kv.Open[string](log, \"users\", nil)\ndefer log.Close()",
		"declarations":             "type T struct{}\n\nfunc (t *T) Close() error { return nil }\n\nvar _ io.Closer = (*T)(nil)",
		"both":                     "type T struct{ n int }\n\nfunc (t *T) add(n int) { t.n += n }\n\nt := &T{}\nt.add(3)",
		"a variable named first":   "for i := range 3 {\n\tfmt.Println(i)\n}",
		"a variable not used":      "x := 3",
		"a return":                 "if err := b.Err(); err != nil {\n\treturn err\n}",
		"a literal":                "func() { fmt.Println(ctx, err, t.Name()) }()",
		"left out in a block":      "if err != nil { … }\nif err != nil { ... }\nfor {\n\t...\n}",
		"left out with the return": "func f() error { … }\n\nerr = f()",
		"left out in arguments":    "fmt.Println(1, ...)",
		"left out between lines":   "x := 1\n...\nfmt.Println(x)\n…",
		"dots that are code":       "args := []any{1}\nfmt.Println(args...)\nfunc(a ...any) {}(args...)",
		"dots in texts":            "fmt.Println(\"… ...\") // … and so on ...",
		"a name of several":        "fmt.Println(kafka.Options{})",
		"the type of its name":     "lease := new(lease.Lease)\nlease.Fence(b)",
		"another package's alias":  "import other \"strings\"\n\nfmt.Println(other.ToUpper(\"x\"))",
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range compiled(t, "docs/x.md", document(code)) {
				t.Error(p)
			}
		})
	}
}

// What does not compile is reported at its line of the document.
func TestWhatDoesNot(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		line int
		want string
	}{
		"a method that is not there":   {"x := 1\nlog.Open(x)", 4, "log.Open undefined"},
		"too few arguments":            {"// A comment.\n\nusers, err := kv.Open[string](log, \"users\")", 5, "not enough arguments"},
		"a variable not declared":      {"fmt.Println(1)\nfmt.Println(nobody)", 4, "undefined: nobody"},
		"a type of another":            {"type T struct{}\nvar n int = T{}", 4, "cannot use T{}"},
		"a package of several":         {"fmt.Println(rand.Int())", 3, "undefined: rand"},
		"declared already":             {"x := 1\nx := 2", 4, "no new variables"},
		"the syntax":                   {"x := 1\nif x {", 4, "expected"},
		"left out where it is needed":  {"x := …", 3, "expected"},
		"a return left out by mistake": {"func f() error { }", 3, "missing return"},
		"in a program":                 {"package main\n\nfunc main() { f() }", 5, "undefined: f"},
		"in a function":                {"x := 1\nfunc f() { y() }", 4, "undefined: y"},
	} {
		t.Run(name, func(t *testing.T) {
			got := compiled(t, "docs/x.md", document(c.code))
			want := fmt.Sprintf("docs/x.md:%d: ", c.line)
			if len(got) == 0 || !strings.HasPrefix(got[0].String(), want) || !strings.Contains(got[0].What, c.want) {
				t.Errorf("%v, want %s%s", got, want, c.want)
			}
		})
	}
}

// What a document declares for its snippet holds for that one only.
func TestBefore(t *testing.T) {
	text := "<!-- snippet: type User struct{ Name string }; var u User -->\n\n```go\nfmt.Println(u.Name)\n```\n"
	if got := compiled(t, "x.md", text); len(got) != 0 {
		t.Error(got)
	}
	if got := compiled(t, "x.md", text+document("fmt.Println(u.Name)")); len(got) != 1 || got[0].Line != 8 {
		t.Error(got)
	}
	if got := compiled(t, "x.md", "<!-- snippet:\nvar u int\nvar v string\n-->\n"+document("u = v")[6:]); len(got) != 1 || !strings.Contains(got[0].What, "cannot use v") {
		t.Error(got)
	}
}

func TestBlocksThatDoNotSayWhatTheyAre(t *testing.T) {
	for text, want := range map[string]int{
		"```\nx\n```\n": 1,
		"Text.\n\n    x := 1\n    y := 2\n\nText.\n": 3,
		"```text\nx\n```\n":                          0,
		"- A list\n\n    goes on\n":                  0,
		"Text\n    that is indented\n":               0,
		"```text\n\n    x\n```\n":                    0,
	} {
		found, problems := markdown("x.md", []byte(text))
		if len(found) != 0 || want == 0 && len(problems) != 0 || want > 0 && (len(problems) != 1 || problems[0].Line != want) {
			t.Errorf("%q: %v, want a problem in line %d", text, problems, want)
		}
	}
}

// Comments show Go, commands and drawings.
func TestComments(t *testing.T) {
	const text = `// Package x does.
//
//	users, err := kv.Open[User](log, "users", nil)
//
// Or
//
//	go test ./...
//	0  4  length
//
//snippet:type User struct{}
package x

// F does.
//
//	n := x.F(
func F() {}

// G does.
//
//	fmt.Println(x.G)
func G() {}
`
	got := fmt.Sprint(compiled(t, "kv/x.go", text))
	if !strings.Contains(got, "kv/x.go:15: expected") || !strings.Contains(got, "kv/x.go:20: undefined: x") || strings.Contains(got, "kv/x.go:3:") {
		t.Error(got)
	}
}
