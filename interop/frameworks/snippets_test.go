package frameworks

import (
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/internal/snippets"
)

// natsjs is the plug-in that not every module proxy has.
const natsjs = "github.com/go-orb/plugins/kvstore/natsjs"

// The code in the comments of this module and of the adapters compiles, which show the
// types of the frameworks.
func TestSnippets(t *testing.T) {
	n, problems, err := snippets.Check("../..", "interop/frameworks", "contrib/natskv/gomicro/doc.go", "contrib/natskv/goorb/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d snippets", n)
	for _, p := range problems {
		if strings.Contains(p.What, natsjs) {
			t.Logf("%s: not required here, see the package comment", p)
			continue
		}
		t.Error(p)
	}
}
