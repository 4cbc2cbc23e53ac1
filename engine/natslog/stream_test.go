package natslog_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// unusable fails unless log finds out that its stream is another one, and writes nothing.
func unusable(t *testing.T, log *natslog.Log) {
	t.Helper()
	testkit.Succeeds(t, "the log has noticed that its stream is another one", func() error {
		if _, err := log.Head(t.Context()); !errors.Is(err, mainstem.ErrCorrupt) || !strings.Contains(err.Error(), "open the log again") {
			return fmt.Errorf("head: %v, want Corrupt that says what to do", err)
		}
		return nil
	})
	_, err := log.Commit(t.Context(), one("", "old"))
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Kind != mainstem.KindCorrupt || e.Outcome != mainstem.NotWritten {
		t.Errorf("a commit: %v, want Corrupt, not written", err)
	}
}

// A log whose stream was deleted and made anew does not go on in the new one.
func TestStreamThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	srv := testnats.NewServer(t, nil)
	js := testnats.JetStream(t, testnats.Connect(t, srv.URL()))
	o := natslog.Options{Stream: "S", Memory: true, SweepEvery: -1} // files would be deleted later
	log := open(t, srv.URL(), o)
	mustCommit(t, log, one("", "1"))
	if err := js.DeleteStream(t.Context(), "S"); err != nil {
		t.Fatal(err)
	}
	again := open(t, srv.URL(), o)
	for n := range 3 {
		mustCommit(t, again, one("", fmt.Sprint("new ", n)))
	}
	unusable(t, log)
	if got := values(t, again); got != "new 0 new 1 new 2" {
		t.Errorf("the new log holds %q", got)
	}
}

// A log whose stream has lost messages does not go on with it, whether others have taken
// their place or not.
func TestStreamThatWasShortened(t *testing.T) {
	for _, others := range []int{0, 1, 2, 5} {
		t.Run(fmt.Sprint(others, " of 2 messages are others"), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			srv := testnats.NewServer(t, &testnats.Options{Configure: func(o *server.Options) { o.StoreDir = dir }})
			p := newProxy(t, srv.URL())
			o := natslog.Options{SweepEvery: -1}
			log := open(t, p.url(), direct(o))
			mustCommit(t, log, one("", "1"))
			srv.Stop()
			old := filepath.Join(t.TempDir(), "old")
			if err := os.CopyFS(old, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			srv.Start()
			testkit.Succeeds(t, "the connection is back", func() error {
				_, err := log.Commit(t.Context(), one("second", "2"))
				return err
			})
			mustCommit(t, log, one("", "3"))
			p.dropAnswers.Store(true) // the log does not see the server before others have written
			srv.Stop()
			if err := errors.Join(os.RemoveAll(dir), os.Rename(old, dir)); err != nil {
				t.Fatal(err)
			}
			srv.Start()
			again := open(t, srv.URL(), o)
			want := "1"
			for n := range others {
				mustCommit(t, again, one("", fmt.Sprint("other ", n)))
				want += fmt.Sprint(" other ", n)
			}
			p.heal()
			unusable(t, log)
			if got := values(t, again); got != want {
				t.Errorf("the log holds %q, want %q", got, want)
			}
			if got := values(t, open(t, srv.URL(), o)); got != want {
				t.Errorf("opened again, the log holds %q, want %q", got, want)
			}
		})
	}
}
