package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// TestViewsOnServers runs the scripts of the views on the servers of others, each on a
// log of its own: only that of buckets without testengines.Servers.
func TestViewsOnServers(t *testing.T) {
	whole := testengines.WithServers(t, "scripts of the views")
	views := func(target func(t *testing.T) string) func(t *testing.T) {
		return func(t *testing.T) {
			p := params("", func(env *testscript.Env) error {
				env.Setenv("MAINSTEM_LOG", target(t))
				return nil
			})
			files, err := filepath.Glob("testdata/views/*.txtar")
			if err != nil || len(files) < 4 {
				t.Fatal(files, err)
			}
			for _, f := range files {
				switch name := filepath.Base(f); {
				case name == "backup.txtar": // servers of others have backups of their own
				case !whole && name != "kv.txtar":
				default:
					p.Files = append(p.Files, f)
				}
			}
			testscript.Run(t, p)
		}
	}
	nats, streams := testnats.NewServer(t, nil), new(atomic.Int32)
	t.Run("nats", views(func(*testing.T) string { return fmt.Sprintf("%s?stream=LOG%d", nats.URL(), streams.Add(1)) }))
	t.Run("postgres", views(func(t *testing.T) string { return testpostgres.DB(t) }))
}

// TestCopyRound copies real data from a directory to PostgreSQL, to JetStream, to an
// embedded server and back to a directory: the last is as the first.
func TestCopyRound(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "log")
	must(t, "event", "import", "--log", from, "--store", "commits", "--stream", "author-{{.author}}", "--type", "commit", realCommits)
	must(t, "kv", "put", "--log", from, "app/users", "42", `{"name":"Ada"}`)
	must(t, "topic", "create", "--log", from, "parcels", "--partitions", "3")
	produceToKafka(t, from)
	want := contents(t, from)
	for _, to := range []string{
		testpostgres.FastDB(t), testnats.NewServer(t, nil).URL(), "nats:embedded?durability=os&store=" + filepath.Join(dir, "nats"), filepath.Join(dir, "back"),
	} {
		must(t, "copy", "--from", from, "--to", to)
		if got := contents(t, to); !slices.Equal(got, want) {
			t.Fatalf("%s has %d entries, want %d", to, len(got), len(want))
		}
		from = to
	}
}
