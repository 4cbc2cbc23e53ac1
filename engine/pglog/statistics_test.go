package pglog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/internal/testkit"
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

// analyzed is a log that lets the server collect statistics before some commits.
type analyzed struct {
	*pglog.Log
	analyze func()
	commits atomic.Int64
}

func (a *analyzed) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if a.commits.Add(1)%16 == 0 {
		a.analyze()
	}
	return a.Log.Commit(ctx, b)
}

// TestProgramsWithStatistics runs random programs while the statistics of the server change.
func TestProgramsWithStatistics(t *testing.T) {
	t.Parallel()
	clock := enginetest.NewClock()
	url := testpostgres.FastDB(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	f := enginetest.All()
	f.Patience = testkit.Patience
	f.Clock, f.Limits, f.SteadyClock = clock, small, true
	f.Programs, f.Steps = 20, 40
	n := 0
	enginetest.RunPrograms(t, f, func(t *testing.T) mainstem.Log {
		n++
		schema := fmt.Sprint("log", n)
		log := openLog(t, url, &pglog.Options{Schema: schema, Now: clock.Now, Monotonic: clock.Monotonic, Limits: small})
		tables := fmt.Sprintf("ANALYZE %[1]s.space, %[1]s.total, %[1]s.key, %[1]s.record, %[1]s.log, %[1]s.batch", schema)
		a := &analyzed{Log: log, analyze: func() {
			if _, err := pool.Exec(context.Background(), tables); err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
		}}
		if n%2 == 0 { // the statistics know one space
			if err := log.CreateSpace(t.Context(), "gone", mainstem.Policy{}); err != nil {
				t.Fatal(err)
			}
			a.analyze()
			if err := log.DropSpace(t.Context(), "gone"); err != nil {
				t.Fatal(err)
			}
		}
		return a
	})
}
