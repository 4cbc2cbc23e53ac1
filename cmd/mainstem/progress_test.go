package main

import (
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// TestProgressOfCommandsOverMany is shown to a person, and neither with --json nor to a script.
func TestProgressOfCommandsOverMany(t *testing.T) {
	m := startMailer(t, &event.SubscribeOptions{OnPoison: event.ParkPoison})
	last := m.append("order-1", "A", "Bad")
	testkit.Eventually(t, "the last is committed", func() bool { return m.sub.Position() >= last })
	person := func(m *cli.Main) { m.Terminal = true }
	do := func(change func(*cli.Main), line string) result {
		t.Helper()
		r := run(t.Context(), change, append(strings.Fields(line), "--log", m.n.URL())...)
		if r.status != cli.ExitOK {
			t.Errorf("%s: %+v", line, r)
		}
		return r
	}
	do(nil, "topic create orders --partitions 2")
	do(nil, "topic produce orders --partition 0 a b c")
	do(nil, "kafka group reset billing --topic orders --to-latest --execute")
	for _, c := range []struct{ line, progress string }{
		{"event subscription list --store shop", "counting events"},
		{"event subscription lag mailer --store shop", "counting events"},
		{"event subscription reset mailer --to-start --dry-run --store shop", "counting events"},
		{"kafka group lag", "reading offsets"},
		{"topic delete-records orders --before 1h --dry-run", "reading offsets"},
		{"topic delete-records orders --to 0=1 --yes", "deleting"},
		{"event subscription skip mailer --parked --yes --store shop", "dropping parked events"},
	} {
		if r := do(person, c.line); !strings.Contains(r.errors, "\r"+c.progress+"  0s") || !strings.HasSuffix(r.errors, "\r") || strings.Contains(r.out, "\r") {
			t.Errorf("%s: a person sees %+v, want %q on standard error", c.line, r, c.progress)
		}
		if r := do(nil, c.line); strings.Contains(r.errors, "\r") {
			t.Errorf("%s: a script sees %q", c.line, r.errors)
		}
		if r := do(person, c.line+" --json"); strings.Contains(r.errors, "\r") {
			t.Errorf("%s --json: %q", c.line, r.errors)
		}
	}
}
