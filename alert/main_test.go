package alert

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a server on log that runs no automations by itself.
func open(t testing.TB, log mainstem.Log, o Options) *Server {
	t.Helper()
	if o.Every == 0 {
		o.Every = -1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := Open(t.Context(), log, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

type executor interface {
	Exec(ctx context.Context, text string, args ...any) (Result, error)
}

type querier interface {
	Query(ctx context.Context, text string, args ...any) (*Rows, error)
}

func exec(t testing.TB, s executor, text string, args ...any) Result {
	t.Helper()
	r, err := s.Exec(t.Context(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// query returns the rows of a result as texts.
func query(t testing.TB, s querier, text string, args ...any) [][]string {
	t.Helper()
	rows, err := s.Query(t.Context(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var out [][]string
	for row, err := range rows.All() {
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var line []string
		for _, v := range row.All() {
			line = append(line, v.String())
		}
		out = append(out, line)
	}
	return out
}

// want fails the test unless a query has this result, as fmt prints it.
func want(t testing.TB, s querier, result, text string, args ...any) {
	t.Helper()
	if got := fmt.Sprint(query(t, s, text, args...)); got != result {
		t.Errorf("%s\n got %s\nwant %s", text, got, result)
	}
}

// scanInto reads one number.
func scanInto(to *int64) func([]driver.Value) error {
	return func(row []driver.Value) error {
		n, ok := row[0].(int64)
		if !ok {
			return fmt.Errorf("%v is no number", row[0])
		}
		*to = n
		return nil
	}
}

func mustJSON(t testing.TB, x any) []byte {
	t.Helper()
	p, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
