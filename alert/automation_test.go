package alert

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func tick(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAlertsLiveAndDie(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := new(testkit.Clock)
		s := open(t, log, Options{Now: c.Now})
		exec(t, s, `insert into alerts.status (Identifier, Node, AlertKey, AlertGroup, Manager, Type, Severity) values
			('down1', 'n', 'k', 'g', 'm', 1, 5), ('down2', 'n', 'k', 'g', 'm', 1, 4), ('other', 'n2', 'k', 'g', 'm', 1, 5), ('manager', 'n', 'k', 'g', 'm2', 1, 3)`)
		exec(t, s, "insert into alerts.details (KeyField, Identifier, Name, Detail) values ('down1####1', 'down1', 'a', 'b'), ('x####1', 'x', 'a', 'b')")
		exec(t, s, "insert into alerts.journal (KeyField, Serial, Text1) values ('1:0:1', 1, 'text'), ('99:0:1', 99, 'text')")
		c.Advance(3 * time.Second)
		exec(t, s, "insert into alerts.status (Identifier, Node, AlertKey, AlertGroup, Manager, Type, Severity) values ('up', 'n', 'k', 'g', 'm', 2, 1)")
		exec(t, s, "insert into alerts.status (Identifier, Node, AlertKey, AlertGroup, Manager, Type, Severity) values ('later', 'n', 'k', 'g', 'm', 1, 4)")
		exec(t, s, "update alerts.status set LastOccurrence = LastOccurrence + 1 where Identifier = 'later'")
		const state = "select Identifier, Severity from alerts.status order by Serial"
		tick(t, s)
		want(t, s, "[[down1 5] [down2 4] [other 5] [manager 3] [up 1] [later 4]]", state) // not due yet
		c.Advance(2 * time.Second)
		tick(t, s)
		want(t, s, "[[down1 0] [down2 0] [other 5] [manager 3] [up 0] [later 4]]", state)
		exec(t, s, "insert into alerts.status (Identifier, Severity, Type, Node) values ('down2', 3, 1, 'ignored')") // it comes again
		want(t, s, "[[3 2 n]]", "select Severity, Tally, Node from alerts.status where Identifier = 'down2'")

		exec(t, s, "update alerts.status set ExpireTime = 100 where Identifier = 'other'")
		c.Advance(60 * time.Second)
		tick(t, s) // the details and journals of nothing go
		want(t, s, "[[down1####1]]", "select KeyField from alerts.details")
		want(t, s, "[[1:0:1]]", "select KeyField from alerts.journal")
		want(t, s, "[[down1 0] [down2 3] [other 5] [manager 3] [up 0] [later 4]]", state)
		c.Advance(61 * time.Second)
		tick(t, s) // what was cleared two minutes ago goes; other expires
		want(t, s, "[[down2 3] [other 0] [manager 3] [later 4]]", state)
		c.Advance(60 * time.Second)
		tick(t, s)
		want(t, s, "[]", "select KeyField from alerts.details")
		c.Advance(5 * time.Minute)
		tick(t, s)
		want(t, s, "[[3]]", "select EventCount from master.stats order by StatTime desc")
	})
}

func TestAutomationsAreSeenAndSwitched(t *testing.T) {
	c := new(testkit.Clock)
	runs := 0
	s := open(t, testengines.Memory(t), Options{Now: c.Now, Automations: []Automation{
		{Name: "mine", Group: "own", Every: 10 * time.Second, Disabled: true, Run: func(context.Context, *Session) error {
			runs++
			return errors.New("out of order")
		}},
		{Name: "no_printers", On: OnInsert, Table: "alerts.status", Row: func(e *RowEvent) error {
			switch {
			case strings.HasPrefix(e.New.Text("Node"), "printer"):
				e.Cancel()
			case e.New.Text("Node") == "bad":
				return errors.New("a bad node")
			}
			return e.New.Set("Location", Text(strings.Repeat("é", 40)))
		}},
		{Name: "keep_critical", On: OnDelete, Table: "alerts.status", Row: func(e *RowEvent) error {
			if e.Old.Int("Severity") == 5 {
				e.Cancel()
			}
			return nil
		}},
	}})
	if r := exec(t, s, "insert into alerts.status (Identifier, Node, Severity) values ('a', 'printer1', 1), ('b', 'host', 5), ('c', 'host', 1)"); r.Affected != 2 {
		t.Errorf("a canceled row counts: %+v", r)
	}
	want(t, s, fmt.Sprintf("[[b %s] [c %[1]s]]", strings.Repeat("é", 32)), "select Identifier, Location from alerts.status order by Identifier") // cut between characters
	if _, err := s.Exec(t.Context(), "insert into alerts.status (Identifier, Node) values ('d', 'host'), ('e', 'bad')"); err == nil || !strings.Contains(err.Error(), "a bad node") {
		t.Errorf("a trigger's error is %v", err)
	}
	if r := exec(t, s, "delete from alerts.status"); r.Affected != 1 {
		t.Errorf("%d rows were deleted", r.Affected)
	}
	want(t, s, "[[b]]", "select Identifier from alerts.status")

	c.Advance(time.Minute)
	tick(t, s)
	if runs != 0 {
		t.Error("a disabled automation ran")
	}
	exec(t, s, "alter trigger group own set enabled true")
	c.Advance(time.Minute)
	if err := s.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), "mine: out of order") {
		t.Errorf("the error of an automation is %v", err)
	}
	want(t, s, "[[1 1 1 out of order temporal: every 10s]]", "select IsEnabled, NumRuns, NumFailures, LastError, TriggerKind from catalog.triggers where TriggerName = 'mine'")
	want(t, s, "[[before insert on alerts.status 5]]", "select TriggerKind, NumRuns from catalog.triggers where TriggerName = 'no_printers'")
	for _, a := range s.Automations() {
		if a.Name == "generic_clear" && (a.Runs != 2 || a.Total <= 0 || a.Every != 5*time.Second || !a.Enabled || a.Last != c.Now()) {
			t.Errorf("generic_clear is %+v", a)
		}
	}
	// On a backup, what is for the primary only does not run.
	s.SetPrimary(false)
	want(t, s, "[[FALSE NCOMS]]", "select get_prop_value('ActingPrimary'), get_prop_value('Name')")
	exec(t, s, "update alerts.status set Severity = 0")
	c.Advance(time.Hour)
	_ = s.Tick(t.Context()) // it returns what mine failed with
	want(t, s, "[[1]]", "select count(*) from alerts.status")
	s.SetPrimary(true)
	if err := s.RunAutomation(t.Context(), "delete_clears"); err != nil {
		t.Error(err)
	}
	if err := s.RunAutomation(t.Context(), "nope"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("an automation that does not exist: %v", err)
	}
	want(t, s, "[[0]]", "select count(*) from alerts.status")
}

// TestGenericClearOfManyResolutions: more than one commit can have are cleared some at a time.
func TestGenericClearOfManyResolutions(t *testing.T) {
	c := new(testkit.Clock)
	s := open(t, narrow{testengines.Memory(t), "alert/alerts.status", 1050}, Options{Now: c.Now, BatchRows: 500})
	const resolutions = 1100
	columns, rows := []string{"Identifier", "Node", "Type", "Severity", "LastOccurrence"}, make([][]any, 0, 2*resolutions)
	for i := range resolutions {
		rows = append(rows, []any{fmt.Sprint("r", i), fmt.Sprint("n", i), 2, 1, c.Now()})
	}
	rows = append(rows, []any{"p", "n1090", 1, 5, c.Now().Add(-time.Minute)}, []any{"other", "n", 1, 5, c.Now()})
	if _, err := s.internal.InsertRows(t.Context(), "alerts.status", columns, rows); err != nil {
		t.Fatal(err)
	}
	if err := s.RunAutomation(t.Context(), "generic_clear"); err != nil {
		t.Fatal(err)
	}
	want(t, s, "[[other 5]]", "select Identifier, Severity from alerts.status where Severity > 0")
}

func TestDisabledTriggersDoNothing(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	exec(t, s, "alter trigger group default_triggers set enabled false")
	exec(t, s, "insert into alerts.status (Identifier) values ('a')")
	want(t, s, "[[0 0 ]]", "select Tally, StateChange, ServerName from alerts.status")
	if _, err := s.Exec(t.Context(), "insert into alerts.status (Identifier) values ('a')"); !errors.Is(err, mainstem.ErrExists) {
		t.Errorf("a reinsert without its trigger: %v", err)
	}
	exec(t, s, "alter trigger deduplication set enabled true")
	exec(t, s, "insert into alerts.status (Identifier) values ('a')")
	want(t, s, "[[1]]", "select Tally from alerts.status")
}

func TestProbesAndGateways(t *testing.T) {
	c := new(testkit.Clock)
	s := open(t, testengines.Memory(t), Options{Now: c.Now})
	probe := s.Session(SessionInfo{User: "probe", App: "PROBE"})
	gate := s.Session(SessionInfo{User: "gate", App: "GATEWAY", Gateway: true})
	defer func() { _ = gate.Close() }()
	insert := func(at, sub int) int64 {
		return exec(t, probe, "insert into alerts.status (Identifier, LastOccurrence, ProbeSubSecondId) values ('p', ?, ?)", at, sub).Affected
	}
	for i, x := range []struct{ at, sub, affected int }{{100, 1, 1}, {100, 1, 0}, {100, 2, 1}, {99, 9, 0}, {101, 0, 1}} {
		if got := insert(x.at, x.sub); got != int64(x.affected) {
			t.Errorf("insert %d affected %d rows", i, got)
		}
	}
	want(t, s, "[[3 101 100]]", "select Tally, LastOccurrence, FirstOccurrence from alerts.status")
	exec(t, gate, "insert into alerts.status (Identifier, Tally, ServerName, ServerSerial) values ('g', 7, 'ELSEWHERE', 1234)")
	want(t, s, "[[7 ELSEWHERE 1234 2]]", "select Tally, ServerName, ServerSerial, Serial from alerts.status where Identifier = 'g'")
	want(t, s, "[[system] [probe] [gate]]", "select LogName from catalog.connections order by ConnectionID")
	if err := probe.Close(); err != nil {
		t.Error(err)
	}
	want(t, s, "[[system 0] [gate 1]]", "select LogName, IsGateway from catalog.connections order by ConnectionID")
	want(t, s, "[[1]]", "select NumSubmits from catalog.profiles where LogName = 'gate'")
}

func TestTheScheduleRunsByItself(t *testing.T) {
	ran := make(chan struct{}, 100)
	s := open(t, testengines.Memory(t), Options{Every: time.Millisecond, Automations: []Automation{
		{Name: "mine", Every: time.Millisecond, Run: func(ctx context.Context, ss *Session) error {
			_, err := ss.Exec(ctx, "insert into alerts.status (Identifier) values ('mine')")
			select {
			case ran <- struct{}{}:
			default:
			}
			return err
		}},
	}})
	<-ran
	<-ran
	testkit.Eventually(t, "the alert was counted", func() bool { return fmt.Sprint(query(t, s, "select Tally > 1 from alerts.status")) == "[[1]]" })
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{Name: "1x"}, {Name: strings.Repeat("x", 30)}, {MaxResultBytes: -1}, {BatchRows: -1}, {Durability: -9},
		{Automations: []Automation{{Name: ""}}}, {Automations: []Automation{{Name: "x"}}}, {Automations: []Automation{{Name: "x", Every: 1}}},
		{Automations: []Automation{{Name: "x", Every: -1}}},
	} {
		if _, err := Open(t.Context(), testengines.Memory(t), &o); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
