package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/internal/testkit"
)

// TestConsent: data is destroyed only where --yes or a person says so.
func TestConsent(t *testing.T) {
	for name, c := range map[string]struct {
		consent       Consent
		person        bool
		answer        string
		agreed, asked bool
		status        int
		out, errs     string
	}{
		"yes":             {consent: Consent{Yes: true}, agreed: true},
		"dry run":         {consent: Consent{DryRun: true}, out: "would drop it\n"},
		"dry run, person": {consent: Consent{DryRun: true}, person: true, answer: "yes\n", out: "would drop it\n"},
		"no terminal":     {answer: "yes\n", status: ExitUsage, errs: "this would drop it; there is no terminal to ask at: say --yes, or --dry-run"},
		"agreed":          {person: true, answer: "yes\n", agreed: true, asked: true, errs: "this would drop it\nType yes to go on: "},
		"refused":         {person: true, answer: "y\n", asked: true, status: ExitFailed, errs: "nothing was changed"},
		"no answer":       {person: true, asked: true, status: ExitFailed, errs: "nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs testkit.Lines
			m := &Main{Stdin: strings.NewReader(c.answer), Stderr: &errs, Terminal: c.person, Person: c.person, Out: bufio.NewWriter(&out)}
			cmd := &cobra.Command{Use: "drop"}
			cmd.SetContext(t.Context())
			agreed, asked, err := m.Confirm(cmd, &c.consent, Loss{Text: "drop it", Fields: new(Fields)})
			status := m.Report(err)
			if ferr := m.Flush(); ferr != nil {
				t.Fatal(ferr)
			}
			if agreed != c.agreed || asked != c.asked || status != c.status {
				t.Errorf("agreed %v, asked %v, status %d: %v", agreed, asked, status, err)
			}
			if out.String() != c.out || !strings.Contains(errs.String(), c.errs) {
				t.Errorf("out %q, errors %q", out.String(), errs.String())
			}
		})
	}
}

// TestQuestionEndsWhenInterrupted: nobody need answer first.
func TestQuestionEndsWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrInterrupted)
	in, write := io.Pipe()
	m := &Main{Stdin: in, Stderr: new(testkit.Lines), Terminal: true, Person: true}
	cmd := &cobra.Command{Use: "drop"}
	cmd.SetContext(ctx)
	agreed, _, err := m.Confirm(cmd, &Consent{}, Loss{Text: "drop it", Fields: new(Fields)})
	if agreed || !errors.Is(err, ErrInterrupted) {
		t.Errorf("agreed %v: %v", agreed, err)
	}
	write.Close()
}
