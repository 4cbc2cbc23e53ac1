package pglog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// result is what a commit came to.
type result struct {
	mainstem.Receipt
	err error
}

// start commits in a goroutine.
func start(t *testing.T, ctx context.Context, log mainstem.Log, b *mainstem.Batch) <-chan result {
	t.Helper()
	done := make(chan result, 1)
	go func() {
		r, err := log.Commit(ctx, b)
		done <- result{r, err}
	}()
	return done
}

// hold opens a transaction that keeps all commits waiting until it ends.
func hold(t *testing.T, log *pglog.Log, c *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.BatchInTx(t.Context(), tx, batch("held", "v")); err != nil {
		t.Fatal(err)
	}
	return tx
}

// killWaiter ends the session that waits for its place in the order.
func killWaiter(t *testing.T, admin *pgx.Conn) {
	t.Helper()
	testkit.Eventually(t, "the commit waits at the server", func() bool { return waiting(t, admin) == 1 })
	if !value[bool](t, admin, "SELECT pg_terminate_backend(l.pid)"+waiters) {
		t.Fatal("the session was not ended")
	}
}

// A connection that breaks during a commit: nobody knows what became of it.
func TestLostConnectionIsAnUnknownOutcome(t *testing.T) {
	log, url := openNew(t, nil)
	c, admin := connect(t, url), connect(t, url)
	commit(t, log, batch("k", "0"))
	tx := hold(t, log, c)
	done := start(t, t.Context(), log, batch("k", "1"))
	killWaiter(t, admin)
	got := <-done
	if !errors.Is(got.err, mainstem.ErrUnavailable) || !errors.Is(got.err, mainstem.ErrUnknownOutcome) {
		t.Errorf("a commit whose connection broke: %v, want Unavailable with an unknown outcome", got.err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := commit(t, log, batch("k", "2")); r.Versions[0] != 2 {
		t.Errorf("the next version is %d, want 2", r.Versions[0])
	}
}

// With an ID the engine tries again, and the batch is there once.
func TestBatchIDResolvesALostConnection(t *testing.T) {
	log, url := openNew(t, nil)
	c, admin := connect(t, url), connect(t, url)
	commit(t, log, batch("k", "0"))
	tx := hold(t, log, c)
	b := batch("k", "1")
	b.ID = "one"
	done := start(t, t.Context(), log, b)
	killWaiter(t, admin)
	testkit.Eventually(t, "it is tried again", func() bool { return waiting(t, admin) == 1 })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err != nil || got.Versions[0] != 2 {
		t.Errorf("a batch with an ID: %+v", got)
	}
	if r := commit(t, log, b); !r.Duplicate || r.Versions[0] != 2 {
		t.Errorf("once more: %+v, want a duplicate", r)
	}
}

// A commit that the server has, and whose caller gives up, is unknown and lets go at once.
func TestImpatientCallerOfASentBatch(t *testing.T) {
	log, url := openNew(t, nil)
	c, admin := connect(t, url), connect(t, url)
	commit(t, log, batch("k", "0"))
	tx := hold(t, log, c)
	ctx, cancel := context.WithCancel(t.Context())
	b := batch("k", "1")
	done := start(t, ctx, log, b)
	testkit.Eventually(t, "the commit waits at the server", func() bool { return waiting(t, admin) == 1 })
	late, cancelLate := context.WithCancel(t.Context())
	behind := start(t, late, log, batch("k", "never")) // queued behind it
	cancelLate()
	if got := <-behind; !errors.Is(got.err, mainstem.ErrCanceled) || errors.Is(got.err, mainstem.ErrUnknownOutcome) {
		t.Errorf("a batch that was only queued: %v, want Canceled and not written", got.err)
	}
	cancel()
	if got := <-done; !errors.Is(got.err, mainstem.ErrCanceled) || !errors.Is(got.err, mainstem.ErrUnknownOutcome) {
		t.Errorf("got %v, want Canceled with an unknown outcome", got.err)
	}
	b.Writes()[0].Value[0] = 'X' // the slices are ours again
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	commit(t, log, batch("k", "2"))
	if got := feed(t, log, mainstem.Filter{}); len(got) != 3 || got[1] != "k@2=1" {
		t.Errorf("the log holds %v", got)
	}
}

// Deadlocks and serialization failures are tried again, however the batch is named.
func TestSerializationFailuresAreRetried(t *testing.T) {
	log, url := openNew(t, &pglog.Options{Retries: 3})
	c := connect(t, url)
	commit(t, log, batch("k", "0"))
	execute(t, c, `CREATE SEQUENCE tries;
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('tries') <= TG_ARGV[0]::int THEN RAISE SQLSTATE '40001'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER fail BEFORE INSERT ON mainstem.record FOR EACH ROW EXECUTE FUNCTION fail(2)`)
	if r := commit(t, log, batch("k", "1")); r.Versions[0] != 2 {
		t.Errorf("after two failures: %+v", r)
	}
	execute(t, c, "DROP TRIGGER fail ON mainstem.record; CREATE TRIGGER fail BEFORE INSERT ON mainstem.record FOR EACH ROW EXECUTE FUNCTION fail(1000)")
	_, err := log.Commit(t.Context(), batch("k", "2"))
	if !errors.Is(err, mainstem.ErrUnavailable) || errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Errorf("failures without end: %v, want Unavailable and not written", err)
	}
	execute(t, c, "DROP TRIGGER fail ON mainstem.record")
	commit(t, log, batch("k", "3"))
}

func TestServerThatIsNotThere(t *testing.T) {
	server := testpostgres.Start(t, &testpostgres.Options{Fast: true})
	url := server.DB(t)
	log := openLog(t, url, &pglog.Options{Retries: -1})
	commit(t, log, batch("k", "0"))
	server.Stop(t)
	testkit.Eventually(t, "commits are certainly not written", func() bool { // the first finds a connection that has just ended
		_, err := log.Commit(t.Context(), batch("k", "1"))
		if !errors.Is(err, mainstem.ErrUnavailable) {
			t.Fatalf("commit: %v, want Unavailable", err)
		}
		return !errors.Is(err, mainstem.ErrUnknownOutcome)
	})
	if _, err := log.Get(t.Context(), "s", []byte("k")); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("get: %v, want Unavailable", err)
	}
	for range log.Feed(t.Context(), mainstem.Filter{Follow: true}) {
		break // it fails at once: the server could not be reached the first time
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := pglog.Open(ctx, url, nil); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("open: %v, want Unavailable", err)
	}
	ended, stop := context.WithTimeout(t.Context(), -time.Second)
	defer stop()
	if _, err := pglog.Open(ended, url, nil); !errors.Is(err, mainstem.ErrCanceled) {
		t.Errorf("open with a context that has ended: %v, want Canceled", err)
	}
}
