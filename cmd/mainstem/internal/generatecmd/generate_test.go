package generatecmd

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/clitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs mainstem generate and returns what it printed, to either, and its exit status.
func run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	return clitest.Run(t, New, append([]string{"generate"}, args...)...)
}

// What is written compiles, together and by itself: the compiler is shown it as packages of this module.
func TestFilesCompile(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "shop")
	alone := t.TempDir()
	overlay := map[string]string{}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	generate := func(dir, pkg string, args ...string) {
		t.Helper()
		out, status := run(t, append(args, "--dir", dir)...)
		if status != 0 {
			t.Fatalf("%v: %s", args, out)
		}
		path := strings.TrimSpace(out)
		overlay[filepath.Join(here, pkg, filepath.Base(path))] = path
	}
	generate(whole, "shop", "event", "OrderPlaced")
	generate(whole, "shop", "event", "OrderPaid")
	generate(whole, "shop", "aggregate", "Order", "--event", "OrderPlaced", "--event", "OrderPaid")
	generate(whole, "shop", "command", "PlaceOrder")
	generate(whole, "shop", "projection", "OrderSummary", "--event", "OrderPlaced", "--event", "OrderPaid")
	packages := []string{"./shop"}
	for _, kind := range []string{"event", "aggregate", "command", "projection"} {
		generate(filepath.Join(alone, kind), "alone/"+kind, kind, "HTTPThing", "--package", "alone")
		packages = append(packages, "./alone/"+kind)
	}
	replace, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay", file}, packages...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestGenerate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "order_placed.go")
	if out, status := run(t, "event", "OrderPlaced", "--dir", dir, "--package", "shop", "--json"); status != 0 || out != `{"file":"`+path+`","package":"shop","name":"OrderPlaced"}`+"\n" {
		t.Errorf("%d, %s", status, out)
	}
	if out, status := run(t, "event", "OrderPlaced", "--dir", dir); status != 4 || !strings.Contains(out, "is there already") || !strings.Contains(out, "--force") {
		t.Errorf("a file that is there: %d, %s", status, out)
	}
	if out, status := run(t, "command", "PlaceOrder", "--dir", dir); status != 0 {
		t.Errorf("%d, %s", status, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "place_order.go"))
	if err != nil || !strings.HasPrefix(string(text), "package shop\n") {
		t.Errorf("the file is of another package than its neighbour, %v:\n%s", err, text)
	}
	if err := os.WriteFile(path, []byte("package other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, status := run(t, "event", "OrderPlaced", "--dir", dir, "--force", "--package", "shop"); status != 0 {
		t.Errorf("%d, %s", status, out)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "type OrderPlaced struct") {
		t.Errorf("%v:\n%s", err, text)
	}
	for _, args := range [][]string{
		{"event", "orderPlaced"}, {"event", "Order-Placed"}, {"event", ""}, {"event"}, {"event", "A", "B"}, {"aggregate", "Order", "--event", "paid"},
		{"event", "A", "--package", "func"}, {"event", "A", "--package", "a.b"}, {"event", "A", "--event", "B"}, {"saga", "A"},
	} {
		if out, status := run(t, append(args, "--dir", t.TempDir()+"/x")...); status != 2 {
			t.Errorf("%v: %d, %s", args, status, out)
		}
	}
	for in, want := range map[string]string{"Order": "order", "OrderPlaced": "order_placed", "HTTPServer": "http_server", "OrderID": "order_id", "V2Order": "v2_order"} {
		if got := snake(in); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}
