package alert

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// mirrored returns the rows of a table with their versions, as the mirror has them.
func mirrored(t *testing.T, s *Server, name string) []string {
	t.Helper()
	tab := s.table(name)
	types := []Type{osql.Integer64, osql.Integer64}
	for i := range tab.Columns {
		types = append(types, tab.Columns[i].Type)
	}
	c, err := s.mirror.open(t.Context(), types, fmt.Sprintf("SELECT %s FROM %s", tab.columnList, tab.mirror()), nil)
	if err != nil {
		t.Fatal(err)
	}
	rows := &Rows{h: newHeader(append(make([]Column, 2), tab.Columns...)), c: c, ctx: t.Context()}
	var out []string
	for row, err := range rows.All() {
		if err != nil {
			t.Fatal(err)
		}
		values := row.values[1:] // servers number rows without a serial differently
		out = append(out, fmt.Sprintf("%x %v", encodeKey(tab, values[1:]), values))
	}
	slices.Sort(out)
	return out
}

// TestMirrorsAreTheLog has two servers write the same rows at once, beside somebody who writes
// elsewhere in the log. In the end each has what a server has that reads the log anew.
func TestMirrorsAreTheLog(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		servers := []*Server{open(t, log, Options{Name: "A"}), open(t, log, Options{Name: "B"})}
		exec(t, servers[0], "create database d; create table d.t (A int primary key, B int)")
		testkit.Eventually(t, "the table is there", func() bool { _, ok := servers[1].Table("d.t"); return ok })
		const statements = 40
		var wg sync.WaitGroup
		for n, s := range servers {
			for c := range 2 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(n), uint64(c)))
					for i := range statements {
						if err := randomWrite(t.Context(), s, r); err != nil {
							t.Error(err)
						}
						if n == 0 && c == 0 && i%10 == 5 {
							exec(t, s, fmt.Sprintf("alter table d.t add column C%d int", i))
						}
					}
				})
			}
		}
		wg.Go(func() {
			for range statements {
				b := mainstem.NewBatch()
				b.Ensure("other", mainstem.Policy{})
				b.Put("other", []byte("k"), []byte("v"))
				if _, err := log.Commit(t.Context(), b); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Wait()
		head, err := log.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fresh := open(t, log, Options{})
		for _, s := range servers {
			if err := s.Wait(t.Context(), head); err != nil {
				t.Fatal(err)
			}
			checkRecent(t, s)
			for _, name := range []string{"alerts.status", "alerts.journal", "d.t"} {
				if got, want := mirrored(t, s, name), mirrored(t, fresh, name); !slices.Equal(got, want) {
					t.Errorf("%s of %s is\n%s\nand in the log\n%s", name, s.Name(), strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		}
	})
}

// randomWrite runs a statement on one of a few rows.
func randomWrite(ctx context.Context, s *Server, r *rand.Rand) error {
	id, n := r.IntN(6), r.IntN(1000)
	var err error
	switch r.IntN(8) {
	case 0, 1, 2:
		_, err = s.Exec(ctx, "insert into alerts.status (Identifier, Poll) values (?, ?)", fmt.Sprint(id), n)
	case 3:
		_, err = s.Exec(ctx, "insert into d.t (A, B) values (?, ?) updating (B)", id, n)
	case 4:
		_, err = s.Exec(ctx, "update alerts.status set Acknowledged = ?, Poll = Poll + 1", n%2)
	case 5:
		_, err = s.Exec(ctx, "delete from d.t where A = ?", id)
	case 6:
		_, err = s.Exec(ctx, "delete from alerts.status where Identifier = ?", fmt.Sprint(id))
	case 7:
		_, err = s.internal.Together(ctx, "insert into d.t (A, B) values (?, ?) updating (B); update d.t set B = B + 1; delete from d.t where B < ?", id, n, n/10)
	}
	return err
}

// unread is a log of which nothing can be scanned for a while.
type unread struct {
	mainstem.Log
	scans atomic.Int32 // that fail
}

func (u *unread) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	if u.scans.Add(-1) < 0 {
		return u.Log.Scan(ctx, space, r)
	}
	return func(yield func(mainstem.Record, error) bool) {
		yield(mainstem.Record{}, &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.NotWritten, Err: errors.New("the disk does not answer")})
	}
}

// TestADefinitionThatCannotBeShown is committed, but the mirror cannot be changed: the error
// says so, and the follower makes up for it.
func TestADefinitionThatCannotBeShown(t *testing.T) {
	log := &unread{Log: testengines.Memory(t)}
	s := open(t, log, Options{})
	exec(t, s, "create database d")
	log.scans.Store(1)
	_, err := s.Exec(t.Context(), "create table d.t (A int primary key)")
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Outcome != mainstem.NoOutcome || !strings.Contains(err.Error(), "in the log") {
		t.Errorf("a definition that could not be shown: %v", err)
	}
	testkit.Eventually(t, "the table is there", func() bool { _, ok := s.Table("d.t"); return ok })
	exec(t, s, "insert into d.t values (1)")
	want(t, s, "[[1]]", "select A from d.t")
}
