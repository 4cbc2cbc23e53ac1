package alert

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestInsertDeduplicatesAndIsSeenAtOnce(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := new(testkit.Clock)
		s := open(t, log, Options{Now: c.Now, Name: "AGG_P"})
		r := exec(t, s, "insert into alerts.status (Identifier, Node, Severity, Summary, Type) values ('a', 'host', 4, 'first', 1)")
		if r.Affected != 1 || r.Serial != 1 || r.KeyField != "1:AGG_P" || !r.Inserted || r.Position == 0 {
			t.Errorf("the result is %+v", r)
		}
		now := c.Now().Unix()
		want(t, s, fmt.Sprintf("[[1 1 AGG_P 1 %d %[1]d %[1]d %[1]d 4 first]]", now),
			"select Serial, Tally, ServerName, ServerSerial, StateChange, InternalLast, FirstOccurrence, LastOccurrence, Severity, Summary from alerts.status")
		c.Advance(time.Minute)
		r = exec(t, s, "insert into alerts.status (Identifier, Node, Severity, Summary, AlertKey) values ('a', 'other', 5, 'second', 'k')")
		if r.Affected != 1 || r.Serial != 1 || r.Inserted {
			t.Errorf("the result of a reinsert is %+v", r)
		}
		want(t, s, fmt.Sprintf("[[1 2 host 4 second k %d %d %d]]", now, now+60, now+60),
			"select Serial, Tally, Node, Severity, Summary, AlertKey, FirstOccurrence, LastOccurrence, StateChange from alerts.status")
		exec(t, s, "update alerts.status set Severity = 0")
		exec(t, s, "insert into alerts.status (Identifier, Severity) values ('a', 3) updating (Node)")
		want(t, s, "[[3 3 ]]", "select Tally, Severity, Node from alerts.status")
		if r := exec(t, s, "delete from alerts.status where Identifier = 'a'"); r.Affected != 1 {
			t.Errorf("the result of a delete is %+v", r)
		}
		want(t, s, "[[0]]", "select count(*) from alerts.status")
		exec(t, s, "insert into alerts.status (Identifier) values ('a')")
		exec(t, s, "insert into alerts.status (Identifier) values ('a')") // its record's version is not 1
		want(t, s, "[[2 2]]", "select Serial, Tally from alerts.status")
	})
}

func TestRestartKeepsEverything(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := open(t, log, Options{})
		exec(t, s, "alter table alerts.status add column Site varchar(20)")
		exec(t, s, "create database mine; create table mine.pairs (A int primary key, B varchar(5) primary key, C real); create index byC on mine.pairs (C)")
		exec(t, s, "create table mine.memory virtual (A int primary key)")
		for i := range 50 {
			exec(t, s, "insert into alerts.status (Identifier, Site, Severity) values (?, 'north', ?)", fmt.Sprint("id", i%40), i%6)
		}
		exec(t, s, "insert into mine.pairs values (1, 'x', 1.5), (-1, '', 2), (1, 'a b', 0)")
		exec(t, s, "insert into mine.memory values (1)")
		exec(t, s, "alter table alerts.status drop column BSM_Identity")
		exec(t, s, "alter trigger delete_clears set enabled false")
		before := query(t, s, "select * from alerts.status order by Serial")
		pairs := query(t, s, "select * from mine.pairs order by A, B")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error("closing twice:", err)
		}
		if _, err := s.Query(t.Context(), "select 1"); !errors.Is(err, mainstem.ErrClosed) {
			t.Errorf("a query of a closed server: %v", err)
		}
		if _, err := s.Exec(t.Context(), "delete from alerts.status"); !errors.Is(err, mainstem.ErrClosed) {
			t.Errorf("a write to a closed server: %v", err)
		}
		s = open(t, log, Options{})
		if after := query(t, s, "select * from alerts.status order by Serial"); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("rows differ:\n%v\n%v", before, after)
		}
		if after := query(t, s, "select * from mine.pairs order by A, B"); fmt.Sprint(after) != fmt.Sprint(pairs) || len(after) != 3 {
			t.Errorf("rows differ:\n%v\n%v", pairs, after)
		}
		want(t, s, "[]", "select * from mine.memory")
		want(t, s, "[[0]]", "select IsEnabled from catalog.triggers where TriggerName = 'delete_clears'")
		want(t, s, "[[byC mine]]", "select IndexName, DatabaseName from catalog.indexes where TableName = 'pairs'")
		if r := exec(t, s, "insert into alerts.status (Identifier) values ('next')"); r.Serial != 41 {
			t.Errorf("the next serial is %d", r.Serial)
		}
		if r := exec(t, s, "insert into alerts.status (Identifier) values ('id0')"); r.Serial != 1 || r.Inserted {
			t.Errorf("an old alert came again as %+v", r)
		}
	})
}

func TestServersOnOneLogSeeEachOther(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		a, b := open(t, log, Options{Name: "A"}), open(t, log, Options{Name: "B"})
		r := exec(t, a, "insert into alerts.status (Identifier) values ('x')")
		if err := b.Wait(t.Context(), r.Position); err != nil {
			t.Fatal(err)
		}
		want(t, b, "[[x A 1]]", "select Identifier, ServerName, Tally from alerts.status")
		// Both count the same alert without waiting for each other.
		done := make(chan error)
		for _, s := range []*Server{a, b} {
			go func() {
				var err error
				for i := 0; i < 25 && err == nil; i++ {
					_, err = s.Exec(t.Context(), "insert into alerts.status (Identifier) values ('x')")
				}
				done <- err
			}()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range []*Server{a, b} {
			testkit.Eventually(t, "the tally is 51", func() bool {
				return fmt.Sprint(query(t, s, "select Tally from alerts.status")) == "[[51]]"
			})
		}
		// Tables that one changes are changed in the other.
		exec(t, a, "create database d; create table d.t (A int primary key, B int); insert into d.t values (1, 2)")
		r = exec(t, a, "alter table d.t add column C int; insert into d.t values (2, 3, 4); alter trigger expire set enabled false")
		if err := b.Wait(t.Context(), r.Position); err != nil {
			t.Fatal(err)
		}
		want(t, b, "[[1 0] [2 4]]", "select A, C from d.t order by A")
		want(t, b, "[[0]]", "select IsEnabled from catalog.triggers where TriggerName = 'expire'")
		exec(t, b, "insert into d.t values (3, 3, 3)")
		testkit.Eventually(t, "the row is there", func() bool { return len(query(t, a, "select A from d.t")) == 3 })
		exec(t, b, "drop table d.t; drop database d")
		testkit.Eventually(t, "the table is gone", func() bool {
			_, ok := a.Table("d.t")
			return !ok
		})
		// Serials are given once.
		for i := range 10 {
			exec(t, a, "insert into alerts.status (Identifier) values (?)", fmt.Sprint("a", i))
			exec(t, b, "insert into alerts.status (Identifier) values (?)", fmt.Sprint("b", i))
		}
		testkit.Eventually(t, "all rows are there", func() bool {
			return fmt.Sprint(query(t, a, "select count(*), count(distinct Serial) from alerts.status")) == "[[21 21]]"
		})
	})
}

// By its position another server waits for a statement, whatever it changed.
func TestEveryChangeSaysItsPosition(t *testing.T) {
	log := testengines.Memory(t)
	s := open(t, log, Options{})
	for _, text := range []string{
		"create database d", "create table d.t (A int primary key, B int)", "alter table d.t add column C int",
		"create index byB on d.t (B)", "insert into d.t values (1, 2, 3)", "update d.t set B = 3", "delete from d.t",
		"drop index byB", "drop table d.t", "drop database d", "svc update 'disk' 1",
		"alter trigger expire set enabled false", "alter trigger group default_triggers set enabled false",
	} {
		got := exec(t, s, text).Position
		head, err := log.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got != head {
			t.Errorf("%s is at %d, and the log ends at %d", text, got, head)
		}
	}
}

func TestWritersOfOneServerShareCommits(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	done := make(chan error)
	for w := range 8 {
		go func() {
			var err error
			for i := 0; i < 50 && err == nil; i++ {
				_, err = s.Exec(t.Context(), "insert into alerts.status (Identifier, Node) values (?, 'n')", fmt.Sprint(i))
				if err == nil && i%10 == w {
					_, err = s.Exec(t.Context(), "insert into alerts.status (Identifier, Nod) values ('x', 'y')")
					if !errors.Is(err, mainstem.ErrNotFound) {
						err = fmt.Errorf("a wrong column: %w", err)
					} else {
						err = nil
					}
				}
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	want(t, s, "[[50 8 8 400]]", "select count(*), min(Tally), max(Tally), sum(Tally) from alerts.status")
}

func TestStatementsThatFail(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	exec(t, s, "create database d; create table d.t (A int primary key, B int nodefault, C varchar(3), D boolean, E unsigned)")
	exec(t, s, "insert into d.t (A, B, C) values (1, 2, 'x')")
	reader := s.Session(SessionInfo{User: "r", ReadOnly: true})
	for _, c := range []struct {
		by   *Session
		text string
		kind mainstem.Kind
		says string
	}{
		{nil, "insert into d.t (A, B) values (1, 2)", mainstem.KindExists, "primary key"},
		{nil, "insert into d.t (A) values (2)", mainstem.KindInvalid, "no default"},
		{nil, "insert into d.t (B) values (2)", mainstem.KindInvalid, "no default"},
		{nil, "insert into d.t (A, B) values (2147483648, 2)", mainstem.KindInvalid, "out of range"},
		{nil, "insert into d.t (A, B) values ('x', 2)", mainstem.KindInvalid, "no number"},
		{nil, "insert into d.t (A, B, E) values (5, 2, -1)", mainstem.KindInvalid, "out of range"},
		{nil, "insert into d.t (A, B, D) values (5, 2, 'maybe')", mainstem.KindInvalid, "no truth value"},
		{nil, "update d.t set A = 3", mainstem.KindInvalid, "cannot be changed"},
		{nil, "update d.t set B = 'many'", mainstem.KindInvalid, "no number"},
		{nil, "select * from d.t where C like '('", mainstem.KindInvalid, "LIKE"},
		{nil, "update d.t set B = 1 where C like '('", mainstem.KindInvalid, "LIKE"},
		{nil, "select sum(max(B)) from d.t", mainstem.KindInvalid, "aggregate"},
		{nil, "insert into catalog.tables (TableName) values ('x')", mainstem.KindDenied, "server's"},
		{nil, "delete from catalog.tables", mainstem.KindDenied, "server's"},
		{nil, "drop table alerts.status", mainstem.KindDenied, "cannot be dropped"},
		{nil, "drop table catalog.tables", mainstem.KindDenied, "server's"},
		{nil, "drop database alerts", mainstem.KindDenied, "cannot be dropped"},
		{nil, "drop database d", mainstem.KindInvalid, "has tables"},
		{nil, "drop database nope", mainstem.KindNotFound, "no database"},
		{nil, "drop index nope", mainstem.KindNotFound, "no index"},
		{nil, "create database d", mainstem.KindExists, "already"},
		{nil, "create table d.t (A int primary key)", mainstem.KindExists, "already"},
		{nil, "create table nope.t (A int primary key)", mainstem.KindNotFound, "no database"},
		{nil, "create table d.u (A int primary key, A int)", mainstem.KindInvalid, "not valid"},
		{nil, "create table d.u (A varchar(0) primary key)", mainstem.KindInvalid, "size"},
		{nil, "alter table d.t add column C int", mainstem.KindExists, "already"},
		{nil, "alter trigger nope set enabled true", mainstem.KindNotFound, "no automation"},
		{nil, "alter trigger group nope set enabled true", mainstem.KindNotFound, "no group"},
		{nil, "use nope", mainstem.KindNotFound, "no database"},
		{nil, "select get_prop_value('nope')", mainstem.KindNotFound, "no property"},
		{nil, "svc update 'x' 7", mainstem.KindInvalid, "state"},
		{nil, "create trigger x", mainstem.KindUnsupported, "CREATE TRIGGER"},
		{nil, "select ? from d.t", mainstem.KindInvalid, "more parameters"},
		{reader, "delete from d.t", mainstem.KindDenied, "only reads"},
		{reader, "create database e", mainstem.KindDenied, "only reads"},
	} {
		by := s.internal
		if c.by != nil {
			by = c.by
		}
		_, err := by.Exec(t.Context(), c.text)
		if mainstem.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v with %q", c.text, err, c.kind, c.says)
		}
	}
	want(t, s, "[[1 2 x 0 0]]", "select * from d.t")
	want(t, reader, "[[1]]", "select count(*) from d.t")
	if _, err := s.Exec(t.Context(), "select 1", make(chan int)); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("an argument that is no value: %v", err)
	}
	if _, err := s.Exec(t.Context(), "select 1", 1); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("an argument too many: %v", err)
	}
}
