package outcome_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
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
		"unknown, then a conflict":           {answers: []error{unknown, conflict, nil}, want: conflict},
		"unknown, a conflict, and away":      {answers: []error{unknown, conflict, away, unknown, nil}, want: conflict},
		"unknown, a conflict, and the end":   {answers: []error{unknown, conflict, away}, cancel: true, want: unknown},
		"unknown, a conflict, and closed":    {answers: []error{unknown, conflict, closed}, want: unknown},
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

// overtaken is a log to which the first request is still on its way when the second gets a conflict.
type overtaken struct {
	mainstem.Log
	commits int
	id      string // of the first request
	early   bool   // the first request arrives before the third
}

func (o *overtaken) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	o.commits++
	switch {
	case o.commits == 1:
		o.id = b.ID
		return mainstem.Receipt{}, failed(mainstem.KindUnavailable, mainstem.Unknown)
	case o.commits == 2:
		return mainstem.Receipt{}, failed(mainstem.KindConflict, mainstem.NotWritten)
	case o.early:
		if err := o.arrive(ctx); err != nil {
			return mainstem.Receipt{}, err
		}
	}
	return o.Log.Commit(ctx, b)
}

// arrive lets the first request arrive.
func (o *overtaken) arrive(ctx context.Context) error {
	b := write()
	b.ID = o.id
	_, err := o.Log.Commit(ctx, b)
	return err
}

func write() *mainstem.Batch {
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	b.Put("s", []byte("k"), nil)
	return b
}

// A conflict after a try of unknown outcome is certain, or the batch is written.
func TestConflictWhileAnEarlierRequestIsOnItsWay(t *testing.T) {
	for _, early := range []bool{true, false} {
		log := &overtaken{Log: model.New(nil), early: early}
		b := write()
		r, err := outcome.Commit(t.Context(), log, b)
		if early {
			if err != nil || len(r.Versions) != 1 || r.Versions[0] != 1 || b.ID == "" {
				t.Errorf("it arrives: %+v, %v, ID %q", r, err, b.ID)
			}
			continue
		}
		if !errors.Is(err, mainstem.ErrConflict) || errors.Is(err, mainstem.ErrUnknownOutcome) || b.ID != "" {
			t.Errorf("it does not arrive: %+v, %v, ID %q", r, err, b.ID)
		}
		if err := log.arrive(t.Context()); err != nil {
			t.Error(err)
		}
		if head, err := log.Head(t.Context()); head != 0 || err != nil {
			t.Errorf("what was not written was written: head %d, %v", head, err)
		}
	}
}

// The ID of the caller stays free for what the caller makes of the conflict.
func TestConflictOfABatchWithAnID(t *testing.T) {
	log := &overtaken{Log: model.New(nil)}
	b := write()
	b.ID = "given"
	if _, err := outcome.Commit(t.Context(), log, b); !errors.Is(err, mainstem.ErrConflict) || !errors.Is(err, mainstem.ErrUnknownOutcome) || b.ID != "given" {
		t.Errorf("%v, ID %q", err, b.ID)
	}
	if r, err := outcome.Commit(t.Context(), log, b); err != nil || r.Duplicate || len(r.Versions) != 1 {
		t.Errorf("the next attempt: %+v, %v", r, err)
	}
}

// viewError is an error of a view, with that of the log in its chain.
type viewError struct{ cause error }

func (e *viewError) Error() string { return "of a view" }
func (e *viewError) Unwrap() error { return e.cause }

// The error of the log is copied: the log may return it to others.
func TestErrorOfTheLogIsNotChanged(t *testing.T) {
	unknown := failed(mainstem.KindUnavailable, mainstem.Unknown)
	view := &viewError{failed(mainstem.KindConflict, mainstem.NotWritten)}
	for _, shared := range []error{failed(mainstem.KindConflict, mainstem.NotWritten), view} {
		b := mainstem.NewBatch()
		b.ID = "given"
		_, err := outcome.Commit(t.Context(), &scripted{answers: []error{unknown, shared}}, b)
		if !errors.Is(err, mainstem.ErrConflict) || !errors.Is(err, mainstem.ErrUnknownOutcome) || mainstem.KindOf(err) != mainstem.KindConflict {
			t.Errorf("%v: %v, want a Conflict of unknown outcome", shared, err)
		}
		if errors.Is(shared, mainstem.ErrUnknownOutcome) {
			t.Errorf("%v was changed", shared)
		}
		if of := (*viewError)(nil); shared == error(view) && (!errors.As(err, &of) || of != view || err.Error() != view.Error()) {
			t.Errorf("%v is no error of the view", err)
		}
	}
}
