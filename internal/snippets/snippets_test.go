package snippets

import (
	"testing"
)

// exceptions are the documents whose snippets cannot be compiled here, with the reason.
var exceptions = map[string]string{
	"contrib/natskv/gomicro/doc.go": "it shows types of go-micro, which only interop/frameworks requires: its tests compile it",
	"contrib/natskv/goorb/doc.go":   "it shows types of go-orb, which only interop/frameworks requires: its tests compile it",
}

// Every piece of Go code in README.md, in docs and in the comments of the module compiles.
func TestRepository(t *testing.T) {
	n, problems, err := Check("../..", ".")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d snippets", n)
	excepted := map[string]bool{}
	for _, p := range problems {
		if exceptions[p.Path] == "" {
			t.Error(p)
		}
		excepted[p.Path] = true
	}
	for path, because := range exceptions {
		if !excepted[path] {
			t.Errorf("the exception for %s is not needed any more: %s", path, because)
		}
	}
}
