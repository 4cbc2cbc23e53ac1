package kafkatopic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/kafkatopic"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

func header(r recordbatch.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func object(t testing.TB, r recordbatch.Record) map[string]any {
	t.Helper()
	var out map[string]any
	d := json.NewDecoder(strings.NewReader(string(r.Value)))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		t.Fatalf("%s: %v", r.Value, err)
	}
	return out
}

func TestARecordIsARow(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := server(t, log)
		first := exec(t, s, "insert into alerts.status (Identifier, Node, Severity, Summary) values (?, 'n1', 5, ?)", "a", "ü \"quoted\"\n<&>")
		exec(t, s, "insert into alerts.status (Identifier, Node) values ('b', 'n2')")
		exec(t, s, "update alerts.status set Acknowledged = 1 where Identifier = 'a'")
		exec(t, s, "delete from alerts.status where Identifier = 'b'")
		tp := find(t, open(t, log), "alert.status")
		got := all(t, tp, 0, 1<<20)
		if len(got) != 2 {
			t.Fatalf("%d records", len(got))
		}
		a, b := got[0], got[1]
		row := object(t, a)
		info, _ := s.Table("alerts.status")
		if string(a.Key) != "a" || row["Node"] != "n1" || row["Severity"] != json.Number("5") || row["Acknowledged"] != json.Number("1") ||
			row["Summary"] != "ü \"quoted\"\n<&>" || row["Tally"] != json.Number("1") || row["URL"] != "" || len(row) != len(info.Columns) {
			t.Errorf("%s: %v", a.Key, row)
		}
		if !strings.HasPrefix(string(a.Value), `{"Identifier":"a","Serial":`+fmt.Sprint(first.Serial)+`,"Node":"n1",`) {
			t.Errorf("the columns are in another order: %.100s", a.Value)
		}
		for name, want := range map[string]string{"alert-table": "alerts.status", "alert-change": "write", "alert-version": "2", "alert-position": fmt.Sprint(a.Offset), "alert-serial": fmt.Sprint(first.Serial)} {
			if got := header(a, name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if string(b.Key) != "b" || b.Value != nil || header(b, "alert-change") != "delete" || header(b, "alert-serial") != "" || header(b, "alert-version") != "2" {
			t.Errorf("a deletion is %+v", b)
		}
		end, err := tp.End(t.Context(), 0)
		if err != nil || end != b.Offset+1 || a.Offset >= b.Offset {
			t.Errorf("end %d, %v", end, err)
		}
		if r := all(t, tp, a.Offset+1, 1<<20); len(r) != 1 || string(r[0].Key) != "b" {
			t.Errorf("from the middle: %d records", len(r))
		}
	})
}

func TestNames(t *testing.T) {
	log := testengines.Memory(t)
	c := open(t, log)
	if all, err := c.All(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	s := server(t, log)
	exec(t, s, "create database custom")
	exec(t, s, "create table custom.things (Name varchar(10) primary key, Part int primary key, Weight real, Ok boolean)")
	exec(t, s, "create table custom.volatile virtual (Name varchar(10) primary key)")
	if err := log.CreateSpace(t.Context(), "alert/stray.space", mainstem.Policy{}); err != nil {
		t.Fatal(err)
	}
	list, err := c.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tp := range list {
		names = append(names, tp.Name())
		for _, c := range []*kafkatopic.Catalog{c, open(t, log)} {
			if same, err := c.ByID(t.Context(), tp.ID()); err != nil || same.Name() != tp.Name() {
				t.Errorf("%s by ID: %v", tp.Name(), err)
			}
		}
	}
	if want := []string{"alert.conversions", "alert.custom.things", "alert.details", "alert.journal", "alert.master.stats", "alert.service.status", "alert.status"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	for _, name := range []string{"alert", "alert.", "alert.nothing", "alert.alerts.status", "alert.a.b.c", "alert.stray.space", "alert.custom.volatile", "alert.catalog", "alert.catalog.tables", "alerts.status", "alert.1x", ""} {
		if tp, err := c.Topic(t.Context(), name); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("%q is %v, %v", name, tp, err)
		}
	}
	exec(t, s, "insert into custom.things (Name, Part, Weight, Ok) values ('x:y', -3, 1.5, true)")
	exec(t, s, "insert into custom.things (Name, Weight, Part) values ('z', ?, 0)", math.Inf(1))
	exec(t, s, "insert into custom.things (Name, Part) values ('gone', 7)")
	exec(t, s, "delete from custom.things where Name = 'gone'")
	var got []string
	for _, r := range all(t, find(t, c, "alert.custom.things"), 0, 1<<20) {
		got = append(got, string(r.Key)+" "+string(r.Value))
	}
	if want := []string{`x:y:-3 {"Name":"x:y","Part":-3,"Weight":1.5,"Ok":1}`, `z:0 {"Name":"z","Part":0,"Weight":null,"Ok":0}`, "gone:7 "}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestATableThatChanges: columns come and go between records, under a reader.
func TestATableThatChanges(t *testing.T) {
	log := testengines.Memory(t)
	s := server(t, log)
	exec(t, s, "insert into alerts.status (Identifier) values ('a')")
	c := open(t, log)
	tp := find(t, c, "alert.status")
	if row := object(t, all(t, tp, 0, 1<<20)[0]); row["Rack"] != nil {
		t.Errorf("%v", row)
	}
	exec(t, s, "alter table alerts.status add column Rack varchar(8)")
	exec(t, s, "insert into alerts.status (Identifier, Rack) values ('b', 'r1')")
	exec(t, s, "alter table alerts.status drop column URL")
	for i, r := range all(t, tp, 0, 1<<20) {
		row := object(t, r)
		if _, ok := row["URL"]; ok || row["Rack"] != []any{"", "r1"}[i] {
			t.Errorf("%v", row)
		}
	}
	exec(t, s, "create database x")
	exec(t, s, "create table x.t (A int primary key)")
	old := find(t, c, "alert.x.t")
	exec(t, s, "drop table x.t")
	if _, err := c.Topic(t.Context(), "alert.x.t"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Error(err)
	}
	exec(t, s, "create table x.t (A int primary key, B int)")
	exec(t, s, "insert into x.t (A, B) values (1, 2)")
	if now := find(t, c, "alert.x.t"); now.ID() == old.ID() || string(all(t, now, 0, 1000)[0].Value) != `{"A":1,"B":2}` {
		t.Error("a table made anew is the old topic")
	}
	if _, err := c.ByID(t.Context(), old.ID()); !errors.Is(err, mainstem.ErrNotFound) {
		t.Error(err)
	}
}

// keeping is a log in which the spaces of dropped tables stay for longer.
type keeping struct{ mainstem.Log }

func (keeping) DropSpace(context.Context, string) error { return nil }

// TestDroppedTablesAreNotListed, though the catalog knows them and their rows are there still.
func TestDroppedTablesAreNotListed(t *testing.T) {
	log := keeping{testengines.Memory(t)}
	s, c := server(t, log), open(t, log)
	exec(t, s, "create database x")
	listed := func() (ids []string) {
		all, err := c.All(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, tp := range all {
			if tp.Name() == "alert.x.t" {
				ids = append(ids, tp.ID().String())
			}
		}
		return ids
	}
	exec(t, s, "create table x.t (A int primary key)")
	first := find(t, c, "alert.x.t")
	if ids := listed(); !slices.Equal(ids, []string{first.ID().String()}) {
		t.Errorf("listed as %q", ids)
	}
	exec(t, s, "drop table x.t")
	if ids := listed(); len(ids) != 0 {
		t.Errorf("a dropped table is listed as %q", ids)
	}
	exec(t, s, "create table x.t (A int primary key)")
	ids := listed()
	if second := find(t, c, "alert.x.t"); second.ID() == first.ID() || !slices.Equal(ids, []string{second.ID().String()}) {
		t.Errorf("a table made anew is listed as %q, the one before it was %v", ids, first.ID())
	}
	if _, err := c.ByID(t.Context(), first.ID()); !errors.Is(err, mainstem.ErrNotFound) {
		t.Error(err)
	}
}

// TestTheEndWithoutTombstones: the newest records vanish, so that the end goes back and
// the bound does not.
func TestTheEndWithoutTombstones(t *testing.T) {
	var clock crashtest.Clock
	log, err := pebblelog.OpenMemory(&pebblelog.Options{Now: clock.Now, SweepEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s, err := alert.Open(t.Context(), log, &alert.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	exec(t, s, "insert into alerts.status (Identifier) values ('a')")
	exec(t, s, "insert into alerts.status (Identifier) values ('b')")
	exec(t, s, "delete from alerts.status where Identifier = 'b'")
	tp := find(t, open(t, log), "alert.status")
	before, err := tp.End(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	clock.Set(2 * mainstem.DefaultTombstoneAge)
	if err := log.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := all(t, tp, 0, 1000)
	end, err := tp.End(t.Context(), 0)
	if err != nil || len(got) != 1 || end != got[0].Offset+1 || end >= before {
		t.Errorf("%d records, end %d after %d, %v", len(got), end, before, err)
	}
	if c, err := tp.Read(t.Context(), 0, before, nil); err != nil || len(c.Data) != 0 || c.Next != before {
		t.Errorf("a reader at the old end: %+v, %v", c, err)
	}
	exec(t, s, "insert into alerts.status (Identifier) values ('c')")
	if got := all(t, tp, before, 1000); len(got) != 1 || string(got[0].Key) != "c" {
		t.Errorf("it goes on with %d records", len(got))
	}
}

// TestOffsetsAreSearchedByTime among rows of which many were superseded.
func TestOffsetsAreSearchedByTime(t *testing.T) {
	var clock crashtest.Clock
	log, err := pebblelog.OpenMemory(&pebblelog.Options{Now: clock.Now, SweepEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s, err := alert.Open(t.Context(), log, &alert.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begin, past := clock.Now().Truncate(time.Millisecond), time.Duration(0)
	for i := range 60 {
		past += time.Duration(i%4) * time.Millisecond
		clock.Set(past)
		exec(t, s, "insert into alerts.status (Identifier) values (?)", fmt.Sprint(i*7%23))
	}
	tp := find(t, open(t, log), "alert.status")
	rows := all(t, tp, 0, 1<<20)
	if len(rows) != 23 {
		t.Fatalf("%d rows", len(rows))
	}
	for at := begin.Add(-time.Millisecond); !at.After(clock.Now().Add(time.Millisecond)); at = at.Add(time.Millisecond) {
		i := slices.IndexFunc(rows, func(r recordbatch.Record) bool { return r.Timestamp >= at.UnixMilli() })
		got, ok, err := tp.OffsetForTime(t.Context(), 0, at)
		if err != nil || ok != (i >= 0) || ok && got.Offset != rows[i].Offset {
			t.Fatalf("at %v: %+v, %v, %v; want row %d", at, got, ok, err, i)
		}
	}
	if got, ok, err := tp.MaxTimestamp(t.Context(), 0); err != nil || !ok || got.Time.UnixMilli() != rows[22].Timestamp {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
}

// TestIDIsForEver: clients and stored offsets remember IDs.
func TestIDIsForEver(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	if got := kafkatopic.IDOf("alert/alerts.status", created).String(); got != "8YHWuNBggcedRIUSTy_QPw" {
		t.Errorf("the ID became %s", got)
	}
}
