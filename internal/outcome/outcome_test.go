package outcome_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/outcome"
)

// scripted answers commits one after another.
type scripted struct {
	mainstem.Log
	answers []error
	commits int
	end     func() // called before the last answer
}

func (s *scripted) Commit(context.Context, *mainstem.Batch) (mainstem.Receipt, error) {
	s.commits++
	if s.commits == len(s.answers) && s.end != nil {
		s.end()
	}
	return mainstem.Receipt{First: 7}, s.answers[s.commits-1]
}

func failed(kind mainstem.Kind, o mainstem.Outcome) error {
	return &mainstem.Error{Kind: kind, Outcome: o}
}

// failStop is a log that takes no commits after one of unknown outcome.
type failStop struct{ *scripted }

func (failStop) FailStop() bool { return true }

// A batch gets an ID for its later tries, unless there are none.
func TestCommitGivesAnID(t *testing.T) {
	unknown := failed(mainstem.KindUnavailable, mainstem.Unknown)
	for _, given := range []string{"", "given"} {
		log := &scripted{answers: []error{unknown, nil}}
		b := mainstem.NewBatch()
		b.ID = given
		if _, err := outcome.Commit(t.Context(), log, b); err != nil || b.ID == "" || given != "" && b.ID != given || log.commits != 2 {
			t.Errorf("ID %q: %v after %d tries; the ID is %q", given, err, log.commits, b.ID)
		}
		log = &scripted{answers: []error{unknown}}
		b.ID = given
		if _, err := outcome.Commit(t.Context(), failStop{log}, b); !errors.Is(err, unknown) || b.ID != given || log.commits != 1 {
			t.Errorf("ID %q, on a log that stops: %v after %d tries; the ID is %q", given, err, log.commits, b.ID)
		}
	}
}

// A try that was not written leaves the outcome of those before it unknown.
func TestCommit(t *testing.T) {
	unknown := failed(mainstem.KindUnavailable, mainstem.Unknown)
	away := failed(mainstem.KindUnavailable, mainstem.NotWritten)
	conflict := failed(mainstem.KindConflict, mainstem.NotWritten)
	canceled := failed(mainstem.KindCanceled, mainstem.NotWritten)
	closed := failed(mainstem.KindClosed, mainstem.NotWritten)
	for name, c := range map[string]struct {
		answers []error
		cancel  bool // before the last answer
		want    error
	}{
		"written":                            {answers: []error{nil}},
		"unknown, then known":                {answers: []error{unknown, unknown, nil}},
		"not written":                        {answers: []error{away}, want: away},
		"a conflict":                         {answers: []error{conflict}, want: conflict},
		"unknown, then a conflict":           {answers: []error{unknown, conflict}, want: conflict},
		"unknown, then away, then known":     {answers: []error{unknown, away, nil}},
		"unknown, then the context ends":     {answers: []error{unknown, canceled}, cancel: true, want: unknown},
		"unknown, then away until it ends":   {answers: []error{unknown, away, away}, cancel: true, want: unknown},
		"unknown, then the log is closed":    {answers: []error{unknown, closed}, want: unknown},
		"the context ends before all of it":  {answers: []error{canceled}, cancel: true, want: canceled},
		"unknown, and the context ends then": {answers: []error{unknown}, cancel: true, want: unknown},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		log := &scripted{answers: c.answers}
		if c.cancel {
			log.end = cancel
		}
		r, err := outcome.Commit(ctx, log, mainstem.NewBatch())
		cancel()
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || err == nil && r.First != 7 {
			t.Errorf("%s: %+v, %v; want %v", name, r, err, c.want)
		}
		if log.commits != len(c.answers) {
			t.Errorf("%s: %d tries, want %d", name, log.commits, len(c.answers))
		}
	}
}
