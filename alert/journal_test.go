package alert

import (
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// TestJournalOfLargeSerials: serials are unsigned, and every alert can be acknowledged.
func TestJournalOfLargeSerials(t *testing.T) {
	for _, old := range []bool{false, true} {
		s := open(t, testengines.Memory(t), Options{})
		serial := "2147483649"
		if old {
			exec(t, s, "alter table alerts.journal drop column Serial; alter table alerts.journal add column Serial integer")
			serial = "-2147483647"
		}
		b := mainstem.NewBatch()
		b.Put(CatalogSpace, serialKey(s.table("alerts.status")), mustJSON(t, serialRecord{Limit: 1 << 31}))
		if _, err := s.Log().Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		exec(t, s, "insert into alerts.status (Identifier) values ('a')")
		exec(t, s, "update alerts.status set Acknowledged = 1")
		want(t, s, "[[2147483649 1]]", "select Serial, Acknowledged from alerts.status")
		want(t, s, "[["+serial+"]]", "select Serial from alerts.journal")
	}
}

// TestJournalOfChanges: acknowledgements, owners and escalations, and what takes them
// back, are in the journal, in the commit of the change.
func TestJournalOfChanges(t *testing.T) {
	c, full := new(testkit.Clock), false
	s := open(t, testengines.Memory(t), Options{Now: c.Now, Automations: []Automation{{
		Name: "full", On: OnInsert, Table: "alerts.journal", Row: func(*RowEvent) error {
			if full {
				return errors.New("the journal is full")
			}
			return nil
		},
	}}})
	ada := s.Session(SessionInfo{User: "ada"})
	exec(t, s, "insert into alerts.status (Identifier, OwnerUID) values ('a', 65534), ('b', 65534)")
	const texts = "select Serial, Text1, Text2, Text3 from alerts.journal order by KeyField"
	for _, step := range []struct{ statement, journal string }{
		{"update alerts.status set Summary = 'x', Severity = 3", "[]"},
		{"update alerts.status set Acknowledged = 1 where Serial = 1", "[[1 Alert acknowledged by ada  ]]"},
		{"update alerts.status set Acknowledged = 1, OwnerUID = 42 where Serial = 1", "[[1 Alert owner changed from nobody to 42 by ada  ]]"},
		{"update alerts.status set SuppressEscl = 1", "[[1 Alert escalation changed from normal to escalated by ada  ] [2 Alert escalation changed from normal to escalated by ada  ]]"},
		{"update alerts.status set Acknowledged = 0, OwnerUID = 65534, SuppressEscl = 0 where Serial = 1",
			"[[1 Alert de-acknowledged by ada Alert owner changed from 42 to nobody by ada Alert escalation changed from escalated to normal by ada]]"},
	} {
		exec(t, ada, step.statement)
		want(t, s, step.journal, texts)
		exec(t, s, "delete from alerts.journal")
	}
	// Several in one moment are kept apart, and clients' own rows from them.
	exec(t, ada, "update alerts.status set Acknowledged = 1; update alerts.status set Acknowledged = 0; update alerts.status set Acknowledged = 1")
	exec(t, ada, "insert into alerts.journal (KeyField, Serial, UID, Chrono) values (to_char(1) + ':65534:' + to_char(to_int(getdate())), 1, 65534, getdate())")
	want(t, s, "[[7]]", "select count(*) from alerts.journal")

	exec(t, s, "delete from alerts.journal; alter trigger journal_changes set enabled false")
	exec(t, ada, "update alerts.status set Acknowledged = 0")
	exec(t, s, "alter trigger journal_changes set enabled true")
	exec(t, s.Session(SessionInfo{User: "gate", Gateway: true}), "update alerts.status set Acknowledged = 1")
	want(t, s, "[]", texts)

	if _, err := ada.Together(t.Context(), "update alerts.status set Acknowledged = 0; insert into alerts.status (Identifier, Severity) values ('c', 'x')"); err == nil {
		t.Error("a text is a severity")
	}
	want(t, s, "[]", texts)
	if _, err := ada.Together(t.Context(), "update alerts.status set Acknowledged = 0; delete from alerts.details"); err != nil {
		t.Error(err)
	}
	want(t, s, "[[2]]", "select count(*) from alerts.journal where Text1 = 'Alert de-acknowledged by ada'")

	// A change without its row in the journal is none.
	full = true
	if _, err := ada.Exec(t.Context(), "update alerts.status set Acknowledged = 1"); err == nil {
		t.Error("an alert was acknowledged without a row in the journal")
	}
	full = false
	want(t, s, "[[2]]", "select count(*) from alerts.status where Acknowledged = 0")
}
