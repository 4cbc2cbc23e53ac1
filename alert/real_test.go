package alert

import (
	"errors"
	"math"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// TestNoNumberIsRefused: SQLite takes a NaN for a null, which no column of the mirror holds.
func TestNoNumberIsRefused(t *testing.T) {
	log := testengines.Memory(t)
	s := open(t, log, Options{})
	exec(t, s, "create database d; create table d.t (A int primary key, R real)")
	for _, x := range []any{"NaN", " nan ", math.NaN(), float32(math.NaN())} {
		if _, err := s.Exec(t.Context(), "insert into d.t values (1, ?)", x); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%v in a column of reals: %v", x, err)
		}
	}
	exec(t, s, "insert into d.t values (1, ?)", math.Inf(1))
	want(t, s, "[[1 +Inf]]", "select A, R from d.t")
}

// TestStoredNaNIsZero: a log may hold a NaN from an earlier version.
func TestStoredNaNIsZero(t *testing.T) {
	log := testengines.Memory(t)
	s := open(t, log, Options{})
	exec(t, s, "create database d; create table d.t (A int primary key, R real)")
	tab := s.table("d.t")
	row := []Value{Int(1), Real(math.NaN())}
	b := mainstem.NewBatch()
	b.Put(tab.space, encodeKey(tab, row), encodeRow(nil, tab, row))
	r, err := log.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context(), r.Last); err != nil {
		t.Fatal(err)
	}
	want(t, s, "[[1 0]]", "select A, R from d.t")
	want(t, open(t, log, Options{}), "[[1 0]]", "select A, R from d.t")
}
