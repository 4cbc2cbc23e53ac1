package alertcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/ingest"
	"github.com/mainstemdev/mainstem/alert/osql"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// TestAnInterruptedImportOfAlertsSaysHowToGoOn: what came was written as it came, and
// what was written is counted.
func TestAnInterruptedImportOfAlertsSaysHowToGoOn(t *testing.T) {
	server, _, url := startIBM(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	in, feed := io.Pipe()
	defer feed.Close()
	done := make(chan outcome, 1)
	go func() {
		done <- runAlerts(ctx, func(m *cli.Main) { m.Stdin = in }, "alerts", "import", "-", "--url", url, "--user", "root", "--batch", "10")
	}()
	fmt.Fprintf(feed, "{\"Identifier\":\"a\"}\n\n{\"Identi")
	for _, err := range server.Changes(t.Context(), statusTable, &alert.ChangeOptions{After: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		break // the row is there while the input is still open
	}
	cancel(cli.ErrInterrupted)
	r := <-done
	if r.status != cli.ExitInterrupted || !strings.Contains(r.errors, "go on with --from-line 2") || !strings.Contains(r.out, "1 written") {
		t.Errorf("%+v", r)
	}
}

// unreliable fails some times before it takes rows.
type unreliable struct {
	fail int
	err  error
	rows int
}

func (u *unreliable) InsertRows(ctx context.Context, _ string, _ []string, rows [][]any, _ ...string) error {
	if ctx.Err() != nil {
		return &mainstem.Error{Kind: mainstem.KindCanceled, Op: "test"}
	}
	if u.fail > 0 {
		u.fail--
		return u.err
	}
	u.rows += len(rows)
	return nil
}

func TestImportTriesAgainWhatMaySucceed(t *testing.T) {
	gone := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "test"}
	row := [][]any{{"x"}}
	for name, c := range map[string]struct {
		sink unreliable
		want error
	}{
		"back soon":        {unreliable{fail: 1, err: gone}, nil},
		"refused":          {unreliable{fail: 1, err: &mainstem.Error{Kind: mainstem.KindInvalid, Op: "test"}}, mainstem.ErrInvalid},
		"interrupted once": {unreliable{}, nil},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if strings.HasPrefix(name, "interrupted") {
			cancel() // what has begun is finished all the same
		}
		err := patient(ctx, &c.sink).InsertRows(ctx, statusTable, []string{"Identifier"}, row)
		cancel()
		if !errors.Is(err, c.want) || (err == nil) != (c.sink.rows == 1) {
			t.Errorf("%s: %v, %d rows", name, err, c.sink.rows)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := patient(ctx, &unreliable{fail: 1, err: gone}).InsertRows(ctx, statusTable, nil, row); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("an import that was interrupted tried again: %v", err)
	}
}

func TestImportOfAlertsShowsProgressToPeople(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(file, []byte("Identifier\na\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, url := startIBM(t)
	person := func(m *cli.Main) { m.Terminal = true }
	if r := runAlerts(t.Context(), person, "alerts", "import", file, "--url", url, "--user", "root"); r.status != cli.ExitOK || !strings.Contains(r.errors, "importing") {
		t.Errorf("%+v", r)
	}
	if r := runAlerts(t.Context(), person, "alerts", "import", file, "--url", url, "--user", "root", "--quiet"); r.status != cli.ExitOK || r.errors != "" {
		t.Errorf("quiet: %+v", r)
	}
}

// TestTooMuchForOneStatementIsNotSent: then the importer tries with fewer rows.
func TestTooMuchForOneStatementIsNotSent(t *testing.T) {
	_, said, url := startIBM(t)
	c, err := (&alertFlags{url: url, user: "root", every: pollEvery}).connect(t.Context(), &cli.Main{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.close() }()
	sink := c.(*restTables)
	many := make([][]any, maxLiterals+1)
	for i := range many {
		many[i] = []any{"x"}
	}
	long := strings.Repeat("x", maxInsert/2+1)
	for name, rows := range map[string][][]any{"many": many, "long": {{long}, {long}}} {
		if err := sink.insertRows(t.Context(), statusTable, []string{"Identifier"}, rows, "Summary"); !errors.Is(err, mainstem.ErrInvalid) || len(said.said) > 0 {
			t.Errorf("%s: %v, and asked for %d", name, err, len(said.said))
		}
	}
	if maxInsert*2 > osql.MaxText { // each quote is doubled
		t.Error("the limit leaves no room for quotes")
	}
	if _, ok := c.(alertImporter); !ok {
		t.Error("it cannot import")
	}
	var _ ingest.Sink = ingest.SinkFunc(sink.insertRows)
}
