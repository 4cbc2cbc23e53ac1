package lint

import (
	"os/exec"
	"strings"
	"testing"
)

// closures are packages and what a program that imports one of them must not link: the
// beginnings of import paths. "*" stands for every module but this one and the standard
// library.
var closures = []struct {
	pkg    string
	refuse []string
}{
	{".", []string{"*"}},
	{"./codec", []string{"*"}},
	{"./codec/binary", []string{"*"}},
	{"./enginetest", []string{"*"}},
	{"./lease", []string{"*"}},
	{"./kv", []string{"*"}},
	{"./event", []string{"*"}},
	{"./event/aggregate", []string{"*"}},
	{"./event/command", []string{"*"}},
	{"./event/eventtest", []string{"*"}},
	{"./event/projection", []string{"*"}},
	{"./event/readmodel", []string{"*"}},
	{"./event/readmodel/pg", []string{"github.com/cockroachdb/pebble", "github.com/nats-io", "github.com/mainstemdev/mainstem/engine", "github.com/prometheus", "google.golang.org"}},
	{"./event/saga", []string{"*"}},
	{"./topic", []string{"github.com/nats-io", "github.com/cockroachdb/pebble", "github.com/twmb/franz-go/pkg/kgo", "github.com/prometheus", "google.golang.org"}},
	{"./alert", []string{"github.com/nats-io", "github.com/cockroachdb/pebble", "github.com/twmb", "github.com/prometheus", "google.golang.org"}},
	{"./alert/omnirest", []string{"*"}},
	{"./alert/coordinator/client", []string{"*"}},
	{"./actor", []string{"*"}},
	{"./actor/cluster", []string{"github.com/nats-io", "github.com/cockroachdb/pebble", "modernc.org/sqlite", "github.com/twmb", "github.com/prometheus", "google.golang.org"}},
	{"./wire/kafka", []string{"modernc.org/sqlite", "github.com/alecthomas/participle", "github.com/mainstemdev/mainstem/alert", "github.com/mainstemdev/mainstem/event", "github.com/fxamacker/cbor", "github.com/vmihailenco/msgpack", "github.com/nats-io", "github.com/cockroachdb/pebble"}},
	{"./wire/http", []string{"modernc.org/sqlite", "github.com/alecthomas/participle", "github.com/mainstemdev/mainstem/alert", "github.com/nats-io", "github.com/cockroachdb/pebble", "github.com/prometheus", "google.golang.org", "connectrpc.com"}},
	{"./server", []string{"modernc.org/sqlite", "github.com/mainstemdev/mainstem/alert", "github.com/mainstemdev/mainstem/actor", "github.com/mainstemdev/mainstem/wire/kafka", "github.com/mainstemdev/mainstem/event", "github.com/twmb/franz-go/pkg/kgo"}},
	{"./engine/natslog", []string{"github.com/nats-io/nats-server", "github.com/cockroachdb/pebble"}},
	{"./engine/pglog", []string{"github.com/nats-io", "github.com/cockroachdb/pebble"}},
	{"./engine/remotelog", []string{"github.com/nats-io", "github.com/cockroachdb/pebble", "modernc.org/sqlite"}},
}

// A program links what it names. The import table bounds what a package imports itself;
// this bounds what comes with it.
func TestLinkClosures(t *testing.T) {
	for _, c := range closures {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", c.pkg)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", cmd, err)
		}
		deps := strings.Fields(string(out))
		if len(deps) == 0 {
			t.Fatalf("%v lists nothing, not even the package", cmd)
		}
		for _, dep := range deps {
			if refused(dep, c.refuse) {
				t.Errorf("who imports %s links %s", c.pkg, dep)
			}
		}
	}
}

func refused(dep string, refuse []string) bool {
	for _, r := range refuse {
		if r == "*" && !strings.HasPrefix(dep+"/", "github.com/mainstemdev/mainstem/") || strings.HasPrefix(dep+"/", r+"/") {
			return true
		}
	}
	return false
}
