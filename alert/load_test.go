package alert

import (
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// TestOpenWithoutTheSpaceOfATable: another server drops a table between the reading of the
// catalog and that of its rows.
func TestOpenWithoutTheSpaceOfATable(t *testing.T) {
	log := testengines.Memory(t)
	first := open(t, log, Options{})
	exec(t, first, "create database d; create table d.t (A int primary key); insert into alerts.status (Identifier) values ('a')")
	if err := log.DropSpace(t.Context(), first.table("d.t").space); err != nil {
		t.Fatal(err)
	}
	s := open(t, log, Options{})
	want(t, s, "[]", "select A from d.t")
	want(t, s, "[[a]]", "select Identifier from alerts.status")
	b := mainstem.NewBatch()
	b.Delete(CatalogSpace, []byte("table/d.t"))
	r, err := log.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context(), r.Last); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Table("d.t"); ok {
		t.Error("the dropped table is there")
	}
}
