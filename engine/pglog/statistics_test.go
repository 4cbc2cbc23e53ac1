package pglog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// TestStatistics writes batches to several spaces after the server has learnt how small its tables
// are. Whatever order it then joins them in, each value goes to its own key, in a commit and in a
// transaction of the program's own.
func TestStatistics(t *testing.T) {
	url := testpostgres.FastDB(t)
	c := connect(t, url)
	for known := range 4 { // the spaces that the statistics know
		for _, tables := range []string{"space", "total", "key", "record", "space, %[1]s.total", "space, %[1]s.total, %[1]s.key"} {
			s := spread{t: t, c: c, want: map[string]string{}, random: rand.New(rand.NewPCG(1, uint64(known)))}
			schema := fmt.Sprintf("log_%d_%d", known, len(tables))
			s.log = openAt(t, url, &pglog.Options{Schema: schema})
			for n := range known {
				s.write(n+1, 1, s.commit)
			}
			execute(t, c, fmt.Sprintf("ANALYZE %[1]s."+tables, schema))
			for n := known; n < 6; n++ {
				s.write(n+1, 1, s.commit)
				s.write(n+1, 8, s.commit)
				s.write(n+1, 8, s.inside)
			}
			s.check(fmt.Sprintf("%d spaces known, statistics of %s", known, tables))
		}
	}
}

// spread writes to several spaces of a log, and remembers what is there.
type spread struct {
	t      *testing.T
	log    *pglog.Log
	c      *pgx.Conn
	want   map[string]string // by space and key
	random *rand.Rand
}

// write writes n keys of the first spaces by do. If n is 1 it creates the last of them.
func (s *spread) write(spaces, n int, do func(b *mainstem.Batch) error) {
	s.t.Helper()
	b := mainstem.NewBatch()
	for range n {
		space, key := fmt.Sprint("s", s.random.IntN(spaces)), fmt.Sprint("k", s.random.IntN(4))
		if n == 1 {
			space = fmt.Sprint("s", spaces-1)
			b.Ensure(space, mainstem.Policy{})
		}
		value := fmt.Sprintf("%s/%s %d", space, key, s.random.Uint32())
		s.want[space+"/"+key] = value
		b.Put(space, []byte(key), []byte(value))
	}
	if err := do(b); err != nil {
		s.t.Fatal(err)
	}
}

func (s *spread) commit(b *mainstem.Batch) error {
	_, err := s.log.Commit(s.t.Context(), b)
	return err
}

func (s *spread) inside(b *mainstem.Batch) error {
	return pgx.BeginFunc(s.t.Context(), s.c, func(tx pgx.Tx) error {
		_, err := s.log.BatchInTx(s.t.Context(), tx, b)
		return err
	})
}

func (s *spread) check(when string) {
	s.t.Helper()
	for at, value := range s.want {
		rec, err := s.log.Get(s.t.Context(), at[:2], []byte(at[3:]))
		if err != nil || string(rec.Value) != value {
			s.t.Errorf("%s: %s holds %q, %v; want %q", when, at, rec.Value, err, value)
		}
	}
}
