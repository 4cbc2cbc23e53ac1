package alert

import (
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// StatementError says which statement of a text with several of them failed, and what
// those before it did. It is in the chain of the error that Exec, Query and Each return.
//
// The Outcome of the [mainstem.Error] around it is about the whole text: NotWritten if
// nothing was changed, Unknown if the failed statement may have been carried out, and
// NoOutcome if it is certain what was done, and something was: Changed says how much.
type StatementError struct {
	Statement int   // that failed, from 1; those after it did not run
	Of        int   // statements in the text
	Ran       int   // statements that were carried out: 0 if one of them cannot be parsed
	Changed   int64 // rows that those changed
	Err       error // why it failed
}

// Error says all of this.
func (e *StatementError) Error() string {
	return fmt.Sprintf("statement %d of %d: %v; %s", e.Statement, e.Of, e.Err, e.before())
}

func (e *StatementError) before() string {
	switch {
	case e.Ran == 0:
		return "none was carried out before it"
	case e.Ran == 1:
		return fmt.Sprintf("statement 1 was carried out (rows changed: %d)", e.Changed)
	}
	return fmt.Sprintf("statements 1 to %d were carried out (rows changed: %d)", e.Ran, e.Changed)
}

// Unwrap returns why the statement failed.
func (e *StatementError) Unwrap() error { return e.Err }

// PartialError is the cause of the error of a statement that is several commits, some of
// which were made: it changed Rows rows, and then failed. The Outcome of the
// [mainstem.Error] around it is Unknown only if that of the last commit is.
type PartialError struct {
	Rows int64 // that are changed
	Err  error // what happened then
}

// Error says both.
func (e *PartialError) Error() string {
	return fmt.Sprintf("after %d rows, which are changed: %v", e.Rows, e.Err)
}

// Unwrap returns what happened then.
func (e *PartialError) Unwrap() error { return e.Err }

// partial says that a statement changed n rows before err.
func partial(err error, n int64) error {
	outcome := outcomeOf(err)
	if outcome != mainstem.Unknown {
		outcome = mainstem.NoOutcome
	}
	e := &mainstem.Error{Kind: mainstem.KindOf(err), Op: "alert", Outcome: outcome, Err: &PartialError{n, err}}
	var cause *mainstem.Error
	if errors.As(err, &cause) {
		e.Want, e.Got, e.GotLive, e.GotPosition = cause.Want, cause.Got, cause.GotLive, cause.GotPosition
	}
	return e
}

// parse splits text, and parses all of its statements if there are several: a mistake
// in a later one must be found before an earlier one is carried out.
func (ss *Session) parse(text string, args []any) ([]osql.Statement, error) {
	statements, err := split(text, args)
	if err != nil || len(statements) == 1 {
		return statements, err
	}
	for i := range statements {
		st := &statements[i]
		if ss.cached(ss.s.schema.Load(), st) != nil {
			continue
		}
		if err := st.Parse(); err != nil {
			return nil, located(err, &StatementError{Statement: i + 1, Of: len(statements)}, mainstem.NotWritten)
		}
	}
	return statements, nil
}

// progress is how far the statements of a text were carried out.
type progress struct {
	of      int // statements in the text
	ran     int
	changed int64 // rows
}

// done notes a statement that was carried out.
func (p *progress) done(r *Rows) {
	p.ran++
	p.changed += r.result.Affected // 0 of a SELECT
}

// failed returns the error of the statement that is next.
func (p *progress) failed(err error) error {
	if p.of == 1 {
		return err
	}
	outcome := outcomeOf(err)
	if p.changed > 0 && outcome != mainstem.Unknown {
		outcome = mainstem.NoOutcome
	}
	return located(err, &StatementError{Statement: p.ran + 1, Of: p.of, Ran: p.ran, Changed: p.changed}, outcome)
}

func outcomeOf(err error) mainstem.Outcome {
	var e *mainstem.Error
	if errors.As(err, &e) {
		return e.Outcome
	}
	return mainstem.Unknown
}

// located returns err with the place at in its text, and with outcome.
func located(err error, at *StatementError, outcome mainstem.Outcome) error {
	var e *mainstem.Error
	if !errors.As(err, &e) {
		at.Err = err
		return &mainstem.Error{Op: "alert", Outcome: outcome, Err: at}
	}
	at.Err = e.Err
	if at.Err == nil {
		at.Err = err
	}
	c := *e
	c.Err, c.Outcome = at, outcome
	if c.Kind == mainstem.KindConflict { // its text has no cause
		c.Hint = fmt.Sprintf("statement %d of %d failed, %s", at.Statement, at.Of, at.before())
	}
	return &c
}
