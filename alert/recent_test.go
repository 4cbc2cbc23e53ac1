package alert

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// checkRecent compares the rows that the writer remembers with the mirror, and returns
// how many they are.
func checkRecent(t testing.TB, s *Server) int {
	t.Helper()
	n := 0
	_, err := s.do(t.Context(), alone, func(*tx) error {
		n = len(s.recent.rows)
		bytes := 0
		for id, x := range s.recent.rows {
			bytes += x.size(id)
			space, key, _ := strings.Cut(id, "\x00")
			tab := s.schema.Load().bySpace[space]
			if tab == nil {
				return fmt.Errorf("%q is of no table", id)
			}
			values := make([]Value, len(tab.Columns))
			if err := decodeKey([]byte(key), tab, values); err != nil {
				return err
			}
			there, err := s.mirror.get(s.quiet, tab, values)
			if err != nil {
				return err
			}
			got := s.recent.get(tab, id)
			if there == nil || got == nil || got.k != there.k || got.version != there.version || !slices.Equal(got.values, there.values) {
				return fmt.Errorf("%q is remembered as %v and is %v", id, got, there)
			}
		}
		if bytes != s.recent.bytes {
			return fmt.Errorf("the remembered rows have %d bytes, not %d", bytes, s.recent.bytes)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRememberedRows(t *testing.T) {
	log := testengines.Memory(t)
	s, other := open(t, log, Options{}), open(t, log, Options{})
	again := func(tally int) {
		t.Helper()
		exec(t, s, "insert into status (Identifier, Severity) values ('a', 5)")
		want(t, s, fmt.Sprintf("[[%d]]", tally), "select Tally from status where Identifier = 'a'")
		if checkRecent(t, s) == 0 {
			t.Fatal("no row is remembered")
		}
	}
	again(1)
	again(2)
	r := exec(t, other, "insert into status (Identifier, Severity) values ('a', 5)")
	if err := s.Wait(t.Context(), r.Position); err != nil {
		t.Fatal(err)
	}
	again(4)
	exec(t, other, "insert into status (Identifier, Severity) values ('a', 5)")
	again(6) // it is found out by the commit
	exec(t, s, "alter table alerts.status add column Extra varchar(10)")
	exec(t, s, "update status set Extra = 'x'")
	again(7)
	if _, err := s.Session(SessionInfo{}).Together(t.Context(), "update status set Tally = 20; update status set Extra = 'y'"); err != nil {
		t.Fatal(err)
	}
	again(21)
	want(t, s, "[[y]]", "select Extra from status")
	exec(t, s, "delete from status")
	again(1)
	exec(t, s, "create table alerts.pairs (A int primary key, B int)")
	exec(t, s, "insert into pairs values (1, 2)")
	exec(t, s, "drop table alerts.pairs")
	exec(t, s, "create table alerts.pairs (A int primary key, B int)")
	exec(t, s, "insert into pairs values (1, 3)")
	want(t, s, "[[1 3]]", "select * from pairs")
	checkRecent(t, s)
}

func TestRememberedRowsAreBounded(t *testing.T) {
	var r recent
	tab := &table{}
	row := make([]byte, 10_000)
	const n = 3 * maxRecent / 10_000
	for i := range n {
		id := fmt.Sprint(i)
		r.set(&op{id: id, table: tab, now: &stored{}, value: row})
		if _, ok := r.rows[id]; !ok {
			t.Fatal("the newest row is not remembered")
		}
	}
	if len(r.rows) < n/6 || len(r.rows) > n/2 || r.bytes > maxRecent+20_000 {
		t.Errorf("%d of %d rows are remembered, %d bytes", len(r.rows), n, r.bytes)
	}
	for i := range n {
		r.set(&op{id: fmt.Sprint(i), table: tab}) // deleted
	}
	if len(r.rows) != 0 || r.bytes != 0 {
		t.Errorf("%d rows are remembered, %d bytes", len(r.rows), r.bytes)
	}
}

// TestShapes writes rows with more sets of columns than statements are kept for.
func TestShapes(t *testing.T) {
	log := testengines.Memory(t)
	s := open(t, log, Options{})
	columns := strings.Split("Poll Grade Class OwnerUID OwnerGID Flash ProcessReq TaskList", " ")
	for set := range 1 << len(columns) {
		names, values := "Identifier", fmt.Sprintf("'%d'", set)
		for i, c := range columns {
			if set>>i&1 == 1 {
				names, values = names+", "+c, values+", 7"
			}
		}
		exec(t, s, "insert into status ("+names+") values ("+values+")")
	}
	total := strings.Join(columns, "), sum(")
	text := "select sum(" + total + "), count(*) from status"
	before := fmt.Sprint(query(t, s, text))
	if half := 7 << (len(columns) - 1); before != fmt.Sprintf("[[%s%d]]", strings.Repeat(fmt.Sprint(half, " "), len(columns)), 1<<len(columns)) {
		t.Error(before)
	}
	want(t, open(t, log, Options{}), before, text)
	if n := len(s.mirror.shapes); n > maxShapes {
		t.Errorf("%d statements are kept", n)
	}
}

// TestUndone takes transactions of each kind back, in turns with those that stay.
func TestUndone(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	for i := range 5 {
		exec(t, s, "insert into status (Identifier) values (?)", fmt.Sprint(i))
		if _, err := s.Session(SessionInfo{}).Together(t.Context(), "update status set Poll = 1; insert into status (Identifier, Severity) values ('x', 'y')"); err == nil {
			t.Fatal("a statement without sense was carried out")
		}
		b := mainstem.NewBatch()
		if err := s.InsertTo(t.Context(), b, "alerts.status", map[string]any{"Identifier": "never"}); err != nil {
			t.Fatal(err)
		}
		want(t, s, fmt.Sprintf("[[%d 0]]", i+1), "select count(*), sum(Poll) from status")
		checkRecent(t, s)
	}
}
