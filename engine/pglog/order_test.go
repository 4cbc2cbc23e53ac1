package pglog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/enginetest/history"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// naive polls a table whose positions come from a sequence, the way a feed with a
// watermark of transaction numbers does: nothing of a transaction that began after the
// oldest one still running, and only what is above the last position seen.
type naive struct {
	c    *pgx.Conn
	last int
	seen []int
}

func (n *naive) poll(t *testing.T) {
	t.Helper()
	rows, err := n.c.Query(t.Context(), `SELECT position FROM naive WHERE position > $1
		AND xmin::text::bigint < pg_snapshot_xmin(pg_current_snapshot())::text::bigint ORDER BY position`, n.last)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		n.last = p
		n.seen = append(n.seen, p)
	}
}

// Two transactions overlap and take positions in turns; the one with the lower number
// commits first, then a reader polls. Positions from a sequence lose records to that
// reader. This one shows that the interleaving is real, the next that it cannot happen here.
func TestPositionsFromASequenceLoseRecords(t *testing.T) {
	url := testpostgres.FastDB(t)
	first, second, reader := connect(t, url), connect(t, url), connect(t, url)
	execute(t, reader, "CREATE TABLE naive (position bigserial, value text)")
	n := naive{c: reader}
	begin := func(c *pgx.Conn) pgx.Tx {
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT pg_current_xact_id()"); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	one, two := begin(first), begin(second)
	for i := range 4 {
		if _, err := []pgx.Tx{one, two}[i%2].Exec(t.Context(), "INSERT INTO naive (value) VALUES ('v')"); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.Commit(t.Context()); err != nil { // positions 1 and 3
		t.Fatal(err)
	}
	n.poll(t)
	if err := two.Commit(t.Context()); err != nil { // positions 2 and 4
		t.Fatal(err)
	}
	n.poll(t)
	if !slices.Equal(n.seen, []int{1, 3, 4}) {
		t.Fatalf("the reader saw %v: the test no longer shows how 2 is lost", n.seen)
	}
}

// The same interleaving: the second writer gets no position before the first has ended,
// so nothing ever appears below what a reader has seen.
func TestOverlappingTransactionsLoseNothing(t *testing.T) {
	log, url := openNew(t, nil)
	other := openAt(t, url, nil)
	c, admin := connect(t, url), connect(t, url)
	commit(t, log, batch("k", "0"))
	for _, ends := range []struct {
		how  func(pgx.Tx) error
		want int // records of the first transaction
	}{{func(tx pgx.Tx) error { return tx.Commit(t.Context()) }, 2}, {func(tx pgx.Tx) error { return tx.Rollback(t.Context()) }, 0}} {
		before := len(feed(t, log, mainstem.Filter{}))
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := log.BatchInTx(t.Context(), tx, batch("first", "v")); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		go func() {
			_, err := other.Commit(context.WithoutCancel(t.Context()), batch("second", "v"))
			done <- err
		}()
		testkit.Eventually(t, "the second writer waits", func() bool { return waiting(t, admin) == 1 })
		if got := len(feed(t, log, mainstem.Filter{})); got != before {
			t.Errorf("a reader sees %d records of transactions that have not ended", got-before)
		}
		if err := ends.how(tx); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := len(feed(t, other, mainstem.Filter{})); got != before+ends.want+1 {
			t.Errorf("afterwards there are %d more records, want %d", got-before, ends.want+1)
		}
	}
}

// Writers on two logs, as in two processes, and readers that poll and follow on both.
func TestTwoProcessesSeeOneOrder(t *testing.T) {
	one, url := openNew(t, nil)
	two := openAt(t, url, nil)
	logs := []*pglog.Log{one, two}
	const writers, each = 8, 40
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	seen := make([][]mainstem.Position, 2*len(logs))
	total := 0
	for w := range writers {
		for n := range each {
			total += (w+n)%3 + 1
		}
	}
	var done atomic.Bool
	for i, log := range logs {
		wg.Go(func() { seen[2*i] = follow(t, log, total) })
		wg.Go(func() { seen[2*i+1] = poll(t, log, &done) })
	}
	for w := range writers {
		go func() {
			errs <- func() error {
				for n := range each {
					b := mainstem.NewBatch()
					for i := range (w+n)%3 + 1 {
						space := []string{"even", "odd"}[(n+i)%2]
						b.Ensure(space, mainstem.Policy{})
						b.Put(space, []byte{byte('a' + w)}, nil)
					}
					if _, err := logs[(w+n)%2].Commit(t.Context(), b); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	wg.Wait()
	for i, positions := range seen {
		if len(positions) != total || !slices.Equal(positions, seen[0]) {
			t.Errorf("reader %d saw %d records, reader 0 %d; %d were written", i, len(positions), len(seen[0]), total)
		}
	}
}

func follow(t *testing.T, log mainstem.Log, n int) (out []mainstem.Position) {
	for r, err := range log.Feed(t.Context(), mainstem.Filter{Follow: true, Limit: n}) {
		if err != nil {
			t.Errorf("follow: %v", err)
			return out
		}
		out = append(out, r.Position)
	}
	return out
}

func poll(t *testing.T, log mainstem.Log, done *atomic.Bool) (out []mainstem.Position) {
	for f := (mainstem.Filter{}); ; {
		last := done.Load()
		for r, err := range log.Feed(t.Context(), f) {
			if err != nil {
				t.Errorf("poll: %v", err)
				return out
			}
			out = append(out, r.Position)
			f.After = r.Position
		}
		if last {
			return out
		}
	}
}

// either is a log whose calls go to one of several logs on the same tables.
type either struct {
	mainstem.Log
	logs []mainstem.Log
}

func (e either) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	return e.logs[rand.IntN(len(e.logs))].Commit(ctx, b)
}

func (e either) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	return e.logs[rand.IntN(len(e.logs))].Get(ctx, space, key)
}

// What clients of two processes are told and read must fit one order; see package history.
func TestHistoryOfTwoProcesses(t *testing.T) {
	one, url := openNew(t, nil)
	two := openAt(t, url, nil)
	commit(t, one, batch("a", "first"))
	rec := history.NewRecorder(either{one, []mainstem.Log{one, two}})
	const clients, each = 6, 60
	var values atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			w := historian{t: t, c: rec.Client(), rnd: rand.New(rand.NewPCG(uint64(i), 11)), values: &values, known: map[string]mainstem.Version{}}
			for range each {
				w.step()
			}
		})
	}
	wg.Wait()
	last := rec.Client()
	if _, err := last.Feed(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for _, v := range history.Check(rec.Operations()) {
		t.Errorf("law %d: %s", v.Law, v.What)
	}
}

// historian is a client that reads and writes at random, after what was there first.
type historian struct {
	t      *testing.T
	c      *history.Client
	rnd    *rand.Rand
	values *atomic.Int64
	known  map[string]mainstem.Version
}

func (h *historian) step() {
	key := string(byte('b' + h.rnd.IntN(4)))
	switch h.rnd.IntN(6) {
	case 0:
		if _, err := h.c.Feed(h.t.Context(), 1); err != nil {
			h.t.Error(err)
		}
	case 1, 2:
		r, err := h.c.Get(h.t.Context(), "s", key)
		if err != nil {
			h.t.Error(err)
		}
		h.known[key] = r.Version
	default:
		b := mainstem.NewBatch()
		b.Put("s", []byte(key), fmt.Append(nil, "v", h.values.Add(1)))
		if v := h.known[key]; v > 0 && h.rnd.IntN(2) == 0 {
			b.IfVersion("s", []byte(key), v)
		}
		r, err := h.c.Commit(h.t.Context(), b)
		if err == nil {
			h.known[key] = r.Versions[0]
		} else if !errors.Is(err, mainstem.ErrConflict) {
			h.t.Error(err)
		}
	}
}
