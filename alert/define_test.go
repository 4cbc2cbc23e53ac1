package alert

import (
	"context"
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// TestDatabaseOfTwoServers: one makes a table in a database while another drops the database,
// and has not come to what the first one did.
func TestDatabaseOfTwoServers(t *testing.T) {
	for first, c := range map[string]struct {
		second string
		want   error
	}{
		"create table d.t (A int primary key)": {"drop database d", mainstem.ErrInvalid},
		"drop database d":                      {"create table d.t (A int primary key)", mainstem.ErrNotFound},
	} {
		log := testengines.Memory(t)
		a, b := open(t, log, Options{}), open(t, log, Options{})
		created := exec(t, a, "create database d")
		if err := b.Wait(t.Context(), created.Position); err != nil {
			t.Fatal(err)
		}
		end := hold(t, b)
		failed := make(chan error, 1)
		go func() {
			_, err := b.Exec(context.WithoutCancel(t.Context()), c.second)
			failed <- err
		}()
		testkit.Eventually(t, "the statement waits", func() bool { return len(b.jobs) == 1 })
		done := exec(t, a, first)
		end()
		if err := <-failed; !errors.Is(err, c.want) {
			t.Errorf("%s after %s: %v", c.second, first, err)
		}
		if err := b.Wait(t.Context(), done.Position); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Server{a, b, open(t, log, Options{})} {
			_, table := s.Table("d.t")
			if database := s.schema.Load().databases["d"] > 0; database != table {
				t.Errorf("after %s: there is the database: %t, the table: %t", first, database, table)
			}
		}
	}
}
