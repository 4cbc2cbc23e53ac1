package alert

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// TestScenarios runs the statements of the coordinator's benchmark for their
// answers: inserts and selects, small and large, one client and ten.
func TestScenarios(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		for _, clients := range []int{1, 10} {
			for _, fresh := range []bool{true, false} {
				if testing.Short() && fresh != (clients > 1) {
					continue // half of the four, with every value of each
				}
				t.Run(fmt.Sprintf("clients=%d/fresh=%v", clients, fresh), func(t *testing.T) { runScenario(t, log, clients, fresh) })
			}
		}
	})
}

func runScenario(t *testing.T, log mainstem.Log, clients int, fresh bool) {
	s := open(t, log, Options{})
	group := fmt.Sprintf("%d-%v", clients, fresh)
	each := func(n int, do func(i int) error) {
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				for i := c; i < n; i += clients {
					if err := do(i); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	const rounds = 3
	for round := range rounds {
		each(100, func(i int) error {
			id := fmt.Sprintf("%s-%d", group, i)
			if fresh {
				id += fmt.Sprintf("-%d", round)
			}
			r, err := s.Exec(context.Background(), statement(id, group, i))
			if err == nil && r.Affected != 1 {
				err = fmt.Errorf("an insert affected %d rows", r.Affected)
			}
			return err
		})
	}
	n, tally := 100, rounds
	if fresh {
		n, tally = 100*rounds, 1
	}
	want(t, s, fmt.Sprintf("[[%d %d %[2]d]]", n, tally), "SELECT count(*), min(Tally), max(Tally) FROM  alerts . status  WHERE ( AlertGroup  = '"+group+"')")
	each(10, func(int) error { // many rows
		rows, err := s.Query(context.Background(), selectStatement(group))
		if err != nil {
			return err
		}
		got, err := rows.Collect()
		if err == nil && (len(got) != n || len(got[0].Columns()) != 13 || got[0].Text("Summary") != "Sit it's accusantium voluptatem perferendis.") {
			err = fmt.Errorf("%d rows, the first is %v", len(got), got[0])
		}
		return err
	})
	each(100, func(i int) error { // few rows
		rows, err := s.Query(context.Background(), fmt.Sprintf("SELECT  Identifier  FROM  alerts . status  WHERE (( AlertGroup  = '%s') AND ( Node  IN ('host%d.example.org', 'x')))", group, i))
		if err != nil {
			return err
		}
		got, err := rows.Collect()
		if err == nil && len(got) != n/100 {
			err = fmt.Errorf("%d rows of host%d", len(got), i)
		}
		return err
	})
	if r := exec(t, s, "UPDATE  alerts . status  SET  Summary ='it''s' WHERE ( AlertGroup  = '"+group+"')"); r.Affected != int64(n) {
		t.Errorf("an update affected %d rows", r.Affected)
	}
	want(t, s, "[[it's]]", "select top 1 Summary from alerts.status where AlertGroup = ?", group)
	if r := exec(t, s, "DELETE FROM  alerts . status  WHERE ( AlertGroup  = '"+group+"')"); r.Affected != int64(n) {
		t.Errorf("a delete affected %d rows", r.Affected)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestStatementsOfClients runs what monitoring tools are known to send.
func TestStatementsOfClients(t *testing.T) {
	c := new(testkit.Clock)
	s := open(t, testengines.Memory(t), Options{Now: c.Now})
	for i := range 3 {
		exec(t, s, "insert into alerts.status (Identifier, Node, Severity, Type) values (?, ?, ?, ?)", fmt.Sprint("id", i), fmt.Sprint("n", i%2), i, 1+i%2)
		c.Advance(100)
	}
	want(t, s, "[]", "select TOP 1 * from master.stats order by StatTime desc")
	want(t, s, "[[0]]", "select count(*) as rowcount from alerts.journal")
	want(t, s, "[[id0 0] [id1 1]]", "select Identifier, Severity from alerts.status where 1=1 and StateChange > 1600000000 and Severity < 2 order by StateChange, Serial")
	want(t, s, "[[id1] [id2]]", "select Identifier from status where FirstOccurrence > getdate()-300 and Severity > 0 ORDER BY Severity ASC, Acknowledged DESC")
	want(t, s, "[[Node 2] [Serial 3] [StateChange 1]]", "select ColumnName, DataType from catalog.columns where DatabaseName='alerts' AND TableName='status' and ColumnName in ('Serial', 'Node', 'StateChange') order by ColumnName")
	want(t, s, "[[id0]]", "select Identifier from alerts.status where (Node + AlertKey) in (select Node + AlertKey from alerts.status where Type = 1) and Severity = 0")
	want(t, s, "[[n0 2 2] [n1 1 1]]", "select Node, count(*), max(Severity) as worst from alerts.status group by Node having count(*) > 0 order by worst desc")
	want(t, s, "[[n0] [n1]]", "select distinct Node from alerts.status order by Node")
	want(t, s, "[[3]]", "select count(*) from alerts.status where Identifier like '^id[0-2]$' and Identifier not like 'x' and getservername() like 'NCO'")
	want(t, s, "[[status 3]]", "select TableName, NumRows from catalog.tables where DatabaseName = 'alerts' and TableName = 'status'")
	want(t, s, "[[Critical]]", "select Conversion from alerts.conversions where Colname = 'Severity' and Value = 5")
	want(t, s, "[[1 0 1.5 5 NODE Tue Nov 14 22:13:20 2023 2023-11-14 22 1700000000]]", `select to_int('1'), mod(4, 2), to_real('1.5'), length('abcde'), upper('node'),
		to_char(StateChange), to_char(StateChange, '%Y-%m-%d'), hourofday(StateChange), to_time('2023-11-14 22:13:20', '%Y-%m-%d %H:%M:%S') from alerts.status where Serial = 1`)
	exec(t, s, `update alerts.status set ExtendedAttr = nvp_set('a="1";b="x ""y"""', 'a', '2') where Serial = 1`)
	want(t, s, `[[2 x "y" 0 a="2";b="x ""y"""]]`, "select nvp_get(ExtendedAttr, 'a'), nvp_get(ExtendedAttr, 'b'), nvp_exists(ExtendedAttr, 'c'), ExtendedAttr from alerts.status where Serial = 1")
	rows := query(t, s, "describe alerts.status")
	if len(rows) != 63 && fmt.Sprint(rows[:2]) != "[[Identifier varchar 255 1] [Serial incr 4 0]]" {
		t.Errorf("DESCRIBE: %d rows, %v", len(rows), rows[:2])
	}
	exec(t, s, "update alerts.status via 'id1' set Acknowledged = 1, OwnerUID = 65534")
	want(t, s, "[[id1]]", "select Identifier from alerts.status where RowSerial = 2 and Acknowledged = 1")
	exec(t, s, "svc update 'web' 0; svc update 'web' 2; svc update 'web' 2")
	want(t, s, fmt.Sprintf("[[web 2 %d %[1]d]]", c.Now().Unix()), "select Name, CurrentState, LastGoodAt, LastBadAt from service.status")
	ss := s.Session(SessionInfo{})
	exec(t, ss, "use master\ngo\ninsert into stats (StatTime) values (5)\ngo\n")
	want(t, ss, "[[5]]", "select StatTime from stats")
	var counts []int64
	err := ss.Each(t.Context(), func(r *Rows) error {
		got, err := r.Collect()
		counts = append(counts, int64(len(got)), r.Result().Affected)
		return err
	}, "select 1; select * from alerts.status; delete from stats")
	if err != nil || fmt.Sprint(counts) != "[1 1 3 3 0 1]" {
		t.Errorf("three statements: %v, %v", counts, err)
	}
}
