package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestScenarios runs all of it, in memory and in directories, for the answers. What it
// takes is for people to read. With -short, once and in memory only.
func TestScenarios(t *testing.T) {
	places, rounds := map[string]string{"memory": ""}, 1
	if !testing.Short() {
		places["directory"], rounds = t.TempDir(), 2
	}
	for name, data := range places {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := run(t.Context(), &out, data, rounds); err != nil {
				t.Error(err)
			}
			t.Log(out.String())
			if got := strings.Count(out.String(), "right\n"); got != len(scenarios) || len(scenarios) != 16 {
				t.Errorf("%d of %d scenarios have right answers", got, len(scenarios))
			}
		})
	}
}

// TestWrongAnswersAreFound: a server that holds something else is not called right.
func TestWrongAnswersAreFound(t *testing.T) {
	b, err := openBed(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}()
	s := &scenario{clients: 1, through: coordinated, rows: 3, selects: 1}
	alerts := newAlerts(s, 1)
	if _, err := b.insert(t.Context(), s, alerts); err != nil {
		t.Fatal(err)
	}
	good := func(want bool, what string) {
		t.Helper()
		_, err := b.selectAll(t.Context(), s, alerts)
		checked := b.check(t.Context(), s, alerts, 1)
		if (err == nil && checked == nil) != want {
			t.Errorf("%s: %v, %v", what, err, checked)
		}
	}
	good(true, "as inserted")
	for _, statement := range []string{
		"update alerts.status set Severity = 6 where Identifier = '" + alerts[0].id + "'",
		"update alerts.status set Severity = " + alerts[0].values[9] + ", Tally = 2 where Identifier = '" + alerts[0].id + "'",
		"delete from alerts.status where Identifier = '" + alerts[0].id + "'",
	} {
		if _, err := b.servers[1].tables.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		good(false, statement)
	}
	if err := b.remove(t.Context(), s, alerts); err == nil {
		t.Error("a delete that affects too few rows is right")
	}
	if err := run(t.Context(), new(strings.Builder), "", 0); err == nil {
		t.Error("no rounds are run")
	}
}
