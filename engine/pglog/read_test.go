package pglog

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// countingSource counts the statements of reads.
type countingSource struct {
	source
	n int
}

func (s *countingSource) query(ctx context.Context, op string, fill func(pgx.Rows) error, sql string, args ...any) error {
	s.n++
	return s.source.query(ctx, op, fill, sql, args...)
}

// A read of a key is one statement, also if there is nothing to read: whether the space is there comes
// with it.
func TestReadsOfKeysAreOneStatement(t *testing.T) {
	log, err := Open(t.Context(), testpostgres.FastDB(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	for range 3 {
		b.Put("s", []byte("k"), []byte("v"))
	}
	if _, err := log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		space, key string
		versions   mainstem.Versions
		records    int
		kind       mainstem.Kind
	}{
		{"s", "k", mainstem.Versions{}, 3, 0},
		{"s", "k", mainstem.Versions{Reverse: true, Limit: 2}, 2, 0},
		{"s", "k", mainstem.Versions{From: 2}, 2, 0},
		{"s", "k", mainstem.Versions{To: 1}, 1, 0},
		{"s", "k", mainstem.Versions{From: 4}, 0, 0},
		{"s", "none", mainstem.Versions{}, 0, 0},
		{"s", "none", mainstem.Versions{Reverse: true, Limit: 2}, 0, 0},
		{"none", "k", mainstem.Versions{}, 0, mainstem.KindNotFound},
		{"none", "k", mainstem.Versions{Reverse: true, Limit: 2}, 0, mainstem.KindNotFound},
	} {
		counted, records := &countingSource{source: poolSource{log}}, 0
		var last error
		for _, err := range (view{l: log, on: counted}).Read(t.Context(), c.space, []byte(c.key), c.versions) {
			if last = err; err == nil {
				records++
			}
		}
		if records != c.records || last == nil && c.kind != 0 || last != nil && mainstem.KindOf(last) != c.kind {
			t.Errorf("%s/%s %+v: %d records, %v: want %d, kind %v", c.space, c.key, c.versions, records, last, c.records, c.kind)
		}
		if counted.n != 1 {
			t.Errorf("%s/%s %+v: %d statements", c.space, c.key, c.versions, counted.n)
		}
	}
}
