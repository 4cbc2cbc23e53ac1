package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// slowDrop is a log that drops a space only when it is told to.
type slowDrop struct {
	mainstem.Log
	asked, drop chan struct{}
}

func (l *slowDrop) DropSpace(ctx context.Context, name string) error {
	close(l.asked)
	<-l.drop
	return l.Log.DropSpace(ctx, name)
}

// TestDropOfATableMadeAnew: another server makes the table anew and writes to it, before the
// rows of the dropped one are removed.
func TestDropOfATableMadeAnew(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		slow := &slowDrop{log, make(chan struct{}), make(chan struct{})}
		s, other := open(t, slow, Options{}), open(t, log, Options{})
		exec(t, s, "create database d; create table d.t (A int primary key); insert into d.t values (1)")
		dropped := make(chan error)
		go func() {
			_, err := s.Exec(context.WithoutCancel(t.Context()), "drop table d.t")
			dropped <- err
		}()
		<-slow.asked
		head, err := log.Head(t.Context())
		if err == nil {
			err = other.Wait(t.Context(), head)
		}
		if err == nil {
			_, err = other.Exec(t.Context(), "create table d.t (A int primary key); insert into d.t values (2)")
		}
		close(slow.drop)
		if err := errors.Join(err, <-dropped); err != nil {
			t.Fatal(err)
		}
		r := exec(t, other, "insert into d.t values (3)")
		if err := s.Wait(t.Context(), r.Position); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Server{s, other, open(t, log, Options{})} {
			want(t, s, "[[2] [3]]", "select A from d.t order by A")
		}
		wantSpaces(t, log, other.table("d.t").space)
	})
}

// wantSpaces fails the test unless these are the spaces whose names begin as that of d.t.
func wantSpaces(t *testing.T, log mainstem.Log, want ...string) {
	t.Helper()
	var got []string
	for info, err := range log.Spaces(t.Context(), SpacePrefix+"d.t") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the spaces are %q, want %q", got, want)
	}
}

// TestLeftovers are removed when a table of their name is made, and no others.
func TestLeftovers(t *testing.T) {
	log := testengines.Memory(t)
	for _, name := range []string{"alert/d.t", "alert/d.t#1", "alert/d.t#1000000", "alert/d.t#x", "alert/d.t2#1"} {
		if err := log.CreateSpace(t.Context(), name, mainstem.Policy{}); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, log, Options{})
	exec(t, s, "create database d; create table d.t (A int primary key); insert into d.t values (1)")
	wantSpaces(t, log, s.table("d.t").space, "alert/d.t#1000000", "alert/d.t#x", "alert/d.t2#1")
	want(t, open(t, log, Options{}), "[[1]]", "select A from d.t")
}

// TestTableOfFormat1 is in a space without its ID.
func TestTableOfFormat1(t *testing.T) {
	log := testengines.Memory(t)
	s := open(t, log, Options{})
	exec(t, s, "create database d")
	const record = `{"format":1,"id":900,"database":"d","name":"t","columns":[{"id":901,"name":"A","type":0,"key":true}],"last":901}`
	b := mainstem.NewBatch()
	b.Ensure("alert/d.t", rowPolicy())
	b.Put(CatalogSpace, []byte("table/d.t"), []byte(record))
	b.Put("alert/d.t", append([]byte("i"), 0x80, 0, 0, 0, 0, 0, 0, 7), []byte{1, 0x84, 0x07, 0x94, 0x1c, 14})
	r, err := log.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context(), r.Last); err != nil {
		t.Fatal(err)
	}
	exec(t, s, "alter table d.t add column B int; insert into d.t values (8, 1)")
	for _, s := range []*Server{s, open(t, log, Options{})} {
		want(t, s, "[[7 0] [8 1]]", "select * from d.t order by A")
	}
	if space, err := TableSpace(t.Context(), log, "d.t"); err != nil || space != "alert/d.t" {
		t.Errorf("the space is %q, %v", space, err)
	}
	if _, err := OpenDecoder(t.Context(), log, "alert/d.t#900"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("a decoder of a space that is not the table's: %v", err)
	}
	exec(t, s, "drop table d.t")
	wantSpaces(t, log)
	exec(t, s, "create table d.t (A int primary key)")
	space := fmt.Sprintf("alert/d.t#%d", s.table("d.t").ID)
	wantSpaces(t, log, space)
	if got, err := TableSpace(t.Context(), log, "d.t"); err != nil || got != space {
		t.Errorf("the space is %q, %v", got, err)
	}
	if _, err := OpenDecoder(t.Context(), log, space); err != nil {
		t.Error(err)
	}
	var kept tableRecord
	rec, err := log.Get(t.Context(), CatalogSpace, []byte("table/d.t"))
	if err == nil {
		err = json.Unmarshal(rec.Value, &kept)
	}
	if err != nil || kept.Format != 2 {
		t.Errorf("the table has format %d, %v", kept.Format, err)
	}
}
