package ingest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/ingest"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server returns a server without automations of its own accord, and a sink to it.
func server(t testing.TB, now func() time.Time) (*alert.Server, *ingest.ServerSink) {
	t.Helper()
	s, err := alert.Open(t.Context(), testengines.Memory(t), &alert.Options{Every: -1, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	sink := ingest.OpenServer(s, "test")
	t.Cleanup(func() {
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, sink
}

// query returns the rows of a statement, their values joined by "|".
func query(t testing.TB, s *alert.Server, text string, args ...any) []string {
	t.Helper()
	rows, err := s.Query(t.Context(), text, args...)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for row, err := range rows.All() {
		if err != nil {
			t.Fatal(err)
		}
		var values []string
		for _, v := range row.All() {
			values = append(values, v.String())
		}
		out = append(out, strings.Join(values, "|"))
	}
	return out
}

func want(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// mapping reads a mapping file that has to be good.
func mapping(t testing.TB, s ingest.Source, text string) *ingest.Mapping {
	t.Helper()
	m, err := ingest.ParseMappings("test.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m.For(s)
}

// memory is a sink that keeps what it is given, and fails as it is told.
type memory struct {
	mu      sync.Mutex
	rows    []map[string]any
	inserts int
	fail    func(rows [][]any) error
}

func (m *memory) InsertRows(_ context.Context, _ string, columns []string, rows [][]any, _ ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		if err := m.fail(rows); err != nil {
			return err
		}
	}
	m.inserts++
	for _, row := range rows {
		one := map[string]any{}
		for i, v := range row {
			one[columns[i]] = v
		}
		m.rows = append(m.rows, one)
	}
	return nil
}

func (m *memory) all(column string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, row := range m.rows {
		out = append(out, fmt.Sprint(row[column]))
	}
	return out
}

func (m *memory) setFail(f func([][]any) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = f
}
