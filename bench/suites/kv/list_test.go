package kv

import (
	"context"
	"testing"

	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
)

// tidies counts the questions that are the first after writes.
type tidies struct {
	*mapStore
	written bool
	firsts  int
}

func (s *tidies) Set(ctx context.Context, table, key string, value []byte) error {
	s.written = true
	return s.mapStore.Set(ctx, table, key, value)
}

func (s *tidies) ask() {
	if s.written {
		s.firsts++
	}
	s.written = false
}

func (s *tidies) Keys(ctx context.Context, table string) ([]string, error) {
	s.ask()
	return s.mapStore.Keys(ctx, table)
}

func (s *tidies) Page(ctx context.Context, table string, offset, limit int) ([]string, error) {
	s.ask()
	return s.mapStore.Page(ctx, table, offset, limit)
}

// TestFirstListIsNotTimed: what the first question after writes pays is not in a round of list
// and page, however few questions that has.
func TestFirstListIsNotTimed(t *testing.T) {
	s := &tidies{mapStore: newMapStore()}
	for _, e := range Entries(factory("mine", func() Store { return s })) {
		if e.Case != "list" && e.Case != "page" {
			continue
		}
		round, err := e.Start(t.Context(), runnertest.Env(t, nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := round.Prepare(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		before := s.firsts
		if err := round.Run(t.Context(), 1, suite.NewRecorder(1)); err != nil {
			t.Fatal(err)
		}
		if before == 0 || s.firsts != before {
			t.Errorf("%s: %d of the questions were the first after writes before the round, %d after it", e.Case, before, s.firsts)
		}
		if err := round.Close(); err != nil {
			t.Error(err)
		}
	}
}
