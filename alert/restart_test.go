package alert

import (
	"context"
	"flag"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

var restartRows = flag.Int("alert.restart", 0, "rows that TestRestartOfALargeTable writes; 0 means 20000, or 2000 with -short")

// TestRestartOfALargeTable: a server that is opened again on a directory has every row,
// with its Serial and its Tally, gives serials behind those, and its automations do what
// was due meanwhile.
func TestRestartOfALargeTable(t *testing.T) {
	n := *restartRows
	switch {
	case n != 0:
	case testing.Short():
		n = 2_000
	default:
		n = 20_000
	}
	dir, c := filepath.Join(t.TempDir(), "log"), new(testkit.Clock)
	log := openDirectory(t, dir)
	s := open(t, log, Options{Now: c.Now})
	populate(t, s, n)
	populate(t, s, n/10) // some of them again
	exec(t, s, "update alerts.status set Severity = 0 where Serial = 7")
	exec(t, s, "update alerts.status set ExpireTime = 60 where Serial = 8")
	exec(t, s, fmt.Sprintf("delete from alerts.status where Identifier = 'identifier-%08d'", n-1))
	exec(t, s, "insert into alerts.status (Identifier, Node, Severity, Type) values ('down', 'router', 5, 1)")
	c.Advance(time.Second)
	exec(t, s, "insert into alerts.status (Identifier, Node, Severity, Type) values ('up', 'router', 1, 2)")
	exec(t, s, "alter trigger clean_journal_table set enabled false")
	before, first := sums(t, s, n), query(t, s, wholeRows)
	if len(before) != n+1 {
		t.Fatalf("there are %d rows, want %d", len(before), n+1)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}

	c.Advance(10 * time.Minute)
	log = openDirectory(t, dir)
	s = open(t, log, Options{Now: c.Now})
	after := sums(t, s, n)
	if len(after) != len(before) {
		t.Fatalf("%d rows became %d", len(before), len(after))
	}
	for i := range before {
		if before[i] != after[i] {
			t.Fatalf("the row %d of %d is another one", i, n)
		}
	}
	if again := query(t, s, wholeRows); fmt.Sprint(first) != fmt.Sprint(again) {
		t.Errorf("whole rows differ:\n%v\n%v", first, again)
	}
	want(t, s, fmt.Sprintf("[[%d]]", n/10), "select count(*) from alerts.status where Tally = 2")
	c.Advance(2 * time.Minute)
	if err := s.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s, "[]", "select Serial from alerts.status where Serial = 7")
	want(t, s, "[[0]]", "select Severity from alerts.status where Serial = 8")
	want(t, s, "[[down 0] [up 0]]", "select Identifier, Severity from alerts.status where Node = 'router' order by Identifier")
	want(t, s, "[[0]]", "select IsEnabled from catalog.triggers where TriggerName = 'clean_journal_table'")
	if r := exec(t, s, "insert into alerts.status (Identifier) values ('next')"); r.Serial != int64(n)+3 || !r.Inserted {
		t.Errorf("the next alert is %+v, want the serial %d", r, n+3)
	}
	if r := exec(t, s, "insert into alerts.status (Identifier) values ('identifier-00000001')"); r.Inserted {
		t.Errorf("an old alert came again as %+v", r)
	}
}

// wholeRows are some rows with all of their columns.
const wholeRows = "select * from alerts.status where Serial < 500 order by Serial"

// openDirectory opens a log in a directory until the test ends.
func openDirectory(t *testing.T, dir string) mainstem.Log {
	t.Helper()
	log, err := pebblelog.Open(dir, &pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() }) // the test may have closed it
	return log
}

// seed is that of sums.
var seed = maphash.MakeSeed()

// sums returns a sum of each row, in the order of serials.
func sums(t *testing.T, s *Server, n int) []uint64 {
	t.Helper()
	rows, err := s.Query(context.Background(), `select Serial, Identifier, Tally, Severity, Type, ServerName, ServerSerial, StateChange, InternalLast,
		FirstOccurrence, LastOccurrence, ExpireTime, Node, AlertGroup, AlertKey, Summary from alerts.status order by Serial`)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]uint64, 0, n)
	for row, err := range rows.All() {
		if err != nil {
			t.Fatal(err)
		}
		var h maphash.Hash
		h.SetSeed(seed)
		for _, v := range row.All() {
			_, _ = h.WriteString(v.String()) // never fails
			_ = h.WriteByte(0)
		}
		out = append(out, h.Sum64())
	}
	return out
}
