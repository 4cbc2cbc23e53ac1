package alert

import (
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem/alert/osql"
)

// standardDatabases are in every log; they cannot be dropped.
var standardDatabases = []string{"alerts", "master", "service"}

// definition is a table that the package knows.
type definition struct {
	name    string // database.table
	columns string // see parse
	indexes [][]string
	rows    [][]Value
}

// record returns the table with IDs from next on.
func (d *definition) record(next *uint64) *tableRecord {
	database, name, _ := strings.Cut(d.name, ".")
	r := &tableRecord{Format: formatNamed, ID: *next, Database: database, Name: name}
	*next++
	ids := map[string]uint64{}
	for _, c := range parse(d.columns) {
		c.ID = *next
		*next++
		ids[c.Name], r.Last = c.ID, c.ID
		r.Columns = append(r.Columns, c)
	}
	for _, columns := range d.indexes {
		var x index
		for _, c := range columns {
			x.Columns = append(x.Columns, ids[c])
		}
		r.Indexes = append(r.Indexes, x)
	}
	return r
}

// parse reads columns: groups "type name name ..." separated by ";". The type is
// int, unsigned, utc, incr, real, bool, or the size of a varchar; a name with ! is part of the
// primary key.
func parse(s string) []Column {
	var out []Column
	for group := range strings.SplitSeq(s, ";") {
		words := strings.Fields(group)
		if len(words) == 0 {
			continue
		}
		c := Column{Size: 4}
		if t, ok := osql.ParseType(words[0]); ok {
			c.Type = t
		} else {
			c.Type = osql.Varchar
			_, _ = fmt.Sscan(words[0], &c.Size) // the definitions are constants, and tested
		}
		switch c.Type {
		case osql.Real, osql.Integer64:
			c.Size = 8
		case osql.Boolean:
			c.Size = 1
		}
		for _, w := range words[1:] {
			c.Name, c.PrimaryKey = strings.CutSuffix(w, "!")
			out = append(out, c)
		}
	}
	return out
}

// statusColumns are those of alerts.status, in order.
const statusColumns = `255 Identifier!; incr Serial; 64 Node NodeAlias Manager Agent; 255 AlertGroup AlertKey; int Severity;
	255 Summary; utc StateChange FirstOccurrence LastOccurrence InternalLast; int Poll Type Tally Class Grade; 64 Location;
	int OwnerUID OwnerGID Acknowledged Flash; 255 EventId; int ExpireTime ProcessReq SuppressEscl; 64 Customer Service;
	int PhysicalSlot PhysicalPort; 64 PhysicalCard; int TaskList; 64 NmosSerial; int NmosObjInst NmosCauseType; 64 NmosDomainName;
	int NmosEntityId NmosManagedStatus; 64 NmosEventMap LocalNodeAlias; 255 LocalPriObj LocalSecObj LocalRootObj; 64 RemoteNodeAlias;
	255 RemotePriObj RemoteSecObj RemoteRootObj; int X733EventType X733ProbableCause; 64 X733SpecificProb; 255 X733CorrNotif;
	64 ServerName; int ServerSerial; 1024 URL; 4096 ExtendedAttr; int OldRow ProbeSubSecondId; 1024 BSM_Identity`

// standardTables are created in a log that has none. The indexes are on what
// tools poll and what automations look for.
func standardTables() []*definition {
	return []*definition{
		{name: "alerts.status", columns: statusColumns, indexes: [][]string{
			{"ServerSerial"}, {"Node"}, {"AlertGroup"}, {"Severity"}, {"StateChange"}, {"LastOccurrence"}, {"Type", "Severity"}, {"ExpireTime"},
		}},
		{name: "alerts.journal", columns: `255 KeyField!; unsigned Serial; int UID; utc Chrono; 255 Text1 Text2 Text3 Text4 Text5 Text6 Text7 Text8
			Text9 Text10 Text11 Text12 Text13 Text14 Text15 Text16`, indexes: [][]string{{"Serial"}}},
		{name: "alerts.details", columns: "255 KeyField! Identifier; int AttrVal Sequence; 255 Name Detail", indexes: [][]string{{"Identifier"}}},
		{name: "alerts.conversions", columns: "255 KeyField! Colname; int Value; 255 Conversion", rows: conversions()},
		{name: "master.stats", columns: `utc StatTime!; int NumClients NumRealtime NumProbes NumGateways EventCount JournalCount DetailCount
			StatusInserts StatusNewInserts StatusDedups StatusUpdates StatusDeletes`},
		{name: "service.status", columns: `255 Name!; int CurrentState; utc StateChange LastGoodAt LastMarginalAt LastBadAt LastReportAt`},
	}
}

// conversions say in words what numbers in columns mean.
func conversions() [][]Value {
	var rows [][]Value
	add := func(column string, value int64, text string) {
		rows = append(rows, []Value{Text(fmt.Sprintf("%s%d", column, value)), Text(column), Int(value), Text(text)})
	}
	for i, s := range []string{"Clear", "Indeterminate", "Warning", "Minor", "Major", "Critical"} {
		add("Severity", int64(i), s)
	}
	add("Type", 1, "Problem")
	add("Type", 2, "Resolution")
	add("Type", 13, "Information")
	add("Acknowledged", 0, "No")
	add("Acknowledged", 1, "Yes")
	add("OwnerUID", 65534, "Nobody")
	return rows
}

// firstSystemID is above every ID that a log gives.
const firstSystemID = 1 << 48

// systemTables are filled by the server when they are read, and are not in the log.
func systemTables() []*tableRecord {
	next := uint64(firstSystemID)
	var out []*tableRecord
	for _, d := range []*definition{
		{name: "catalog.databases", columns: "40 DatabaseName!; int NumTables; bool IsSystem"},
		{name: "catalog.tables", columns: "40 TableName! DatabaseName!; int Status NumDependents; integer64 TableID; int TableKind StorageKind; bool IsSystem; integer64 NumRows"},
		{name: "catalog.columns", columns: `40 ColumnName! TableName! DatabaseName!; int OrdinalPosition DataType Length;
			bool IsPrimaryKey IsNotModifiable IsNotDefaulted`},
		{name: "catalog.indexes", columns: "40 IndexName! TableName! DatabaseName!; 255 ColumnNames"},
		{name: "catalog.triggers", columns: `64 TriggerName! GroupName; 255 TriggerKind; bool IsEnabled; int Priority; 1024 Comment;
			integer64 NumRuns NumFailures NumRows; utc LastRun; real LastSeconds TotalSeconds; 1024 LastError`},
		{name: "catalog.connections", columns: `int ConnectionID!; 255 LogName HostName AppName AppDescription; bool IsRealTime IsGateway; utc ConnectTime`},
		{name: "catalog.profiles", columns: `int ConnectionID!; 255 LogName HostName AppName; real LastSQLTime MinSQLTime MaxSQLTime TotalSQLTime;
			utc LastTimingAt; integer64 NumSubmits`},
		{name: "catalog.properties", columns: "255 PropName! Value"},
	} {
		r := d.record(&next)
		r.Virtual = true
		out = append(out, r)
	}
	return out
}
