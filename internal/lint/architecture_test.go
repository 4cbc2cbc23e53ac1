package lint

import (
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

// The page of the architecture names each room: every public package, every package of
// internal, and every group of commands. Packages below the internal folder of another one
// are named in that one's own comment.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	const module = "github.com/mainstemdev/mainstem"
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	checked := 0
	for _, pkg := range strings.Fields(string(out)) {
		dir := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
		above, _, below := strings.Cut(dir, "/internal/")
		switch {
		case dir == "", strings.HasPrefix(dir, "examples/"), strings.HasPrefix(dir, "wire/rpc/mainstem/"): // the root; programs; generated
			continue
		case below && above != "cmd/mainstem":
			continue
		}
		checked++
		if !namesPackage(string(page), dir) {
			t.Errorf("docs/architecture.md does not name %s: say in its table what lives there", dir)
		}
	}
	if checked < 80 {
		t.Errorf("%d packages checked: go list shows too few", checked)
	}
}

// namesPackage reports whether page has the path or the last name of dir as code.
func namesPackage(page, dir string) bool {
	for _, name := range []string{dir, path.Base(dir)} {
		if strings.Contains(page, "`"+name+"`") || strings.Contains(page, "`"+name+"/`") {
			return true
		}
	}
	return false
}
