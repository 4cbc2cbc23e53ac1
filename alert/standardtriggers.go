package alert

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
)

// The groups of the standard automations.
const (
	GroupDefault = "default_triggers"
	GroupPrimary = "primary_only" // run on the acting primary only
)

// The intervals of the standard automations, and what they wait for.
const (
	clearsEvery   = time.Minute
	expireEvery   = time.Minute
	genericEvery  = 5 * time.Second
	cleanEvery    = time.Minute
	statsEvery    = 5 * time.Minute
	clearsAfter   = "120"  // seconds that a cleared alert stays
	statsRemember = "3600" // seconds that statistics stay
)

func standardAutomations() []Automation {
	return []Automation{
		{Name: "new_row", Group: GroupDefault, On: OnInsert, Table: "alerts.status", Priority: 1, Row: newRow,
			Description: "gives a new alert its Tally, times and identity"},
		{Name: "deduplication", Group: GroupDefault, On: OnReinsert, Table: "alerts.status", Priority: 1, Row: deduplicate,
			Description: "counts an alert that came again, and takes over its newest state"},
		{Name: "deduplicate_details", Group: GroupDefault, On: OnReinsert, Table: "alerts.details", Priority: 1,
			Row:         func(e *RowEvent) error { e.Cancel(); return nil },
			Description: "leaves details that came again as they are"},
		{Name: "state_change", Group: GroupDefault, On: OnUpdate, Table: "alerts.status", Priority: 1, Row: stateChange,
			Description: "notes when an alert was changed"},
		{Name: "journal_changes", Group: GroupDefault, On: OnUpdate, Table: "alerts.status", Priority: 20, Row: journalChanges,
			Description: "writes into the journal who acknowledged, took or escalated an alert, or took that back"},
		{Name: "generic_clear", Group: GroupPrimary, Every: genericEvery, Run: genericClear,
			Description: "clears problems, and the resolutions that came after them"},
		interval("expire", GroupPrimary, expireEvery, "clears alerts whose ExpireTime has run out",
			"update alerts.status set Severity = 0 where ExpireTime > 0 and Severity > 0 and LastOccurrence + ExpireTime < getdate()"),
		interval("delete_clears", GroupPrimary, clearsEvery, "deletes alerts that were cleared two minutes ago",
			"delete from alerts.status where Severity = 0 and StateChange < getdate() - "+clearsAfter),
		interval("clean_details_table", GroupPrimary, cleanEvery, "deletes details of alerts that are gone",
			"delete from alerts.details where Identifier not in (select Identifier from alerts.status)"),
		interval("clean_journal_table", GroupPrimary, cleanEvery, "deletes journals of alerts that are gone",
			"delete from alerts.journal where Serial not in (select Serial from alerts.status)"),
		{Name: "statistics_gather", Group: GroupPrimary, Every: statsEvery, Run: gather,
			Description: "writes a row of master.stats and deletes those of more than an hour ago"},
	}
}

// interval is an automation that runs one text of statements.
func interval(name, group string, every time.Duration, description, text string) Automation {
	return Automation{Name: name, Group: group, Every: every, Description: description,
		Run: func(ctx context.Context, s *Session) error {
			_, err := s.Exec(ctx, text)
			return err
		}}
}

// The statements of generic_clear. The signs before some columns keep SQLite from
// walking all problems for each resolution: there are few of those, and few alerts
// of one node.
const clearProblems = `
	update alerts.status set Severity = 0 where Serial in (
		select p.Serial from alerts.status r, alerts.status p
		where r.Type = 2 and r.Severity > 0 and +r.Serial <= ?
			and p.Node = r.Node and +p.AlertGroup = r.AlertGroup and p.AlertKey = r.AlertKey and p.Manager = r.Manager
			and +p.Type = 1 and +p.Severity > 0 and +p.LastOccurrence < r.LastOccurrence)`

const clearResolutions = "update alerts.status set Severity = 0 where Type = 2 and Severity > 0 and +Serial <= ?"

// someResolutions are the first that are not cleared: few enough for one commit.
const someResolutions = "select top 1000 Serial from alerts.status where Type = 2 and Severity > 0 order by Serial"

// genericClear runs in one commit, so that no resolution is cleared that was not
// compared with the problems. If there are too many for that, most problems are cleared
// before, and then some resolutions at a time.
func genericClear(ctx context.Context, s *Session) error {
	upTo := func(serial int64) error {
		_, err := s.Together(ctx, clearProblems+"; "+clearResolutions, serial, serial)
		return err
	}
	err := upTo(maxSerial)
	if !errors.Is(err, mainstem.ErrInvalid) {
		return err
	}
	if _, err := s.Exec(ctx, clearProblems, int64(maxSerial)); err != nil {
		return err
	}
	for last := int64(0); ; {
		rows, err := s.Query(ctx, someResolutions)
		if err != nil {
			return err
		}
		some, err := rows.Collect()
		if err != nil {
			return err
		}
		if len(some) == 0 || some[len(some)-1].Int("Serial") <= last { // a trigger may leave them as they are
			return nil
		}
		last = some[len(some)-1].Int("Serial")
		if err := upTo(last); err != nil {
			return err
		}
	}
}

// newRow gives a new alert what its sender did not. A gateway's alerts keep the
// Tally and the server that they come with.
func newRow(e *RowEvent) error {
	now := Int(e.Now.Unix())
	n := setter{row: e.New}
	if !e.Session.Gateway {
		n.set("Tally", Int(1))
		n.set("ServerName", Text(e.Server))
	}
	if e.New.Int("ServerSerial") == 0 {
		n.set("ServerSerial", Int(int64(int32(e.New.Int("Serial")))))
	}
	n.set("StateChange", now)
	n.set("InternalLast", now)
	if e.New.Int("LastOccurrence") == 0 {
		n.set("LastOccurrence", now)
	}
	if e.New.Int("FirstOccurrence") == 0 {
		n.set("FirstOccurrence", e.New.Get("LastOccurrence"))
	}
	return n.err
}

// deduplicate counts an alert that came again. A probe may send alerts late, or
// twice: those that are not newer than what is there are left out. A problem that
// was cleared comes back with its new severity; one that is open keeps its own.
func deduplicate(e *RowEvent) error {
	now := Int(e.Now.Unix())
	last := e.New.Get("LastOccurrence")
	if last.Int() == 0 {
		last = now
	}
	if e.Session.Probe() {
		before := e.Old.Int("LastOccurrence")
		if last.Int() < before || last.Int() == before && e.New.Int("ProbeSubSecondId") <= e.Old.Int("ProbeSubSecondId") {
			e.Cancel()
			return nil
		}
	}
	o := setter{row: e.Old}
	o.set("Tally", Int(e.Old.Int("Tally")+1))
	o.set("LastOccurrence", last)
	o.set("StateChange", now)
	o.set("InternalLast", now)
	for _, c := range []string{"Summary", "AlertKey", "ProbeSubSecondId"} {
		o.set(c, e.New.Get(c))
	}
	if e.Old.Int("Severity") == 0 && e.New.Int("Severity") > 0 {
		o.set("Severity", e.New.Get("Severity"))
	}
	return o.err
}

func stateChange(e *RowEvent) error {
	return e.New.Set("StateChange", Int(e.Now.Unix()))
}

// setter sets columns of a row until one fails. Columns that somebody has
// dropped are passed over.
type setter struct {
	row Row
	err error
}

func (s *setter) set(name string, v Value) {
	if s.err == nil && s.row.Has(name) {
		s.err = s.row.Set(name, v)
	}
}

// gather writes a row of master.stats.
func gather(ctx context.Context, ss *Session) error {
	s := ss.s
	var probes, gateways int
	list := s.sessions.list()
	for _, x := range list {
		if x.info.Probe() {
			probes++
		}
		if x.info.Gateway {
			gateways++
		}
	}
	counts := map[string]int64{}
	for _, name := range []string{"alerts.status", "alerts.journal", "alerts.details"} {
		n, err := s.count(ctx, name)
		if err != nil {
			return err
		}
		counts[name] = n
	}
	c := &s.counts
	_, err := ss.InsertRows(ctx, "master.stats", []string{"StatTime", "NumClients", "NumProbes", "NumGateways", "EventCount", "JournalCount",
		"DetailCount", "StatusInserts", "StatusNewInserts", "StatusDedups", "StatusUpdates", "StatusDeletes"},
		[][]any{{s.now(), len(list), probes, gateways, counts["alerts.status"], counts["alerts.journal"], counts["alerts.details"],
			low(c.inserts.Load()), low(c.newInserts.Load()), low(c.dedups.Load()), low(c.updates.Load()), low(c.deletes.Load())}},
		"NumClients")
	if err != nil {
		return err
	}
	_, err = ss.Exec(ctx, "delete from master.stats where StatTime < getdate() - "+statsRemember)
	return err
}

// low returns the part of a counter that fits an integer column: like IBM's
// counters, ours begin again.
func low(n int64) int64 { return n & (1<<31 - 1) }
