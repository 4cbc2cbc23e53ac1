package remotelog_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// appends commits batches without an ID from several goroutines, each to a key of its own and to
// one of all, and checks by the receipts and by what the log holds that each was carried out once.
// A commit that says it was not written is made anew, as any program may.
func appends(t *testing.T, log, behind mainstem.Log) {
	t.Helper()
	const writers, each = 3, 4
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			mine := fmt.Appendf(nil, "own-%d", w)
			for i := range each {
				b := mainstem.NewBatch()
				b.Ensure("s", mainstem.Policy{})
				b.Put("s", []byte("all"), fmt.Appendf(nil, "%d/%d", w, i))
				b.Put("s", mine, fmt.Append(nil, i))
				r, err := log.Commit(t.Context(), b)
				for tries := 0; tries < 20 && notWritten(err); tries++ {
					r, err = log.Commit(t.Context(), b)
				}
				if err != nil {
					t.Errorf("commit %d of writer %d: %v", i, w, err)
				} else if r.Duplicate || len(r.Versions) != 2 || r.Versions[1] != mainstem.Version(i+1) {
					t.Errorf("commit %d of writer %d: receipt %+v", i, w, r)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]int{}
	for r, err := range behind.Read(t.Context(), "s", []byte("all"), mainstem.Versions{}) {
		if err != nil {
			t.Fatal(err)
		}
		seen[string(r.Value)]++
	}
	for w := range writers {
		for i := range each {
			if n := seen[fmt.Sprintf("%d/%d", w, i)]; n != 1 {
				t.Errorf("commit %d of writer %d was carried out %d times", i, w, n)
			}
		}
	}
}

func notWritten(err error) bool {
	var e *mainstem.Error
	return errors.As(err, &e) && e.Kind == mainstem.KindUnavailable && e.Outcome == mainstem.NotWritten
}

// TestCommitsAreCarriedOutOnceWhereverTheConnectionBreaks cuts the first connection, which
// carries a session from its upgrade on, behind every few bytes in each direction.
func TestCommitsAreCarriedOutOnceWhereverTheConnectionBreaks(t *testing.T) {
	for name, o := range map[string]remotelog.Options{"sessions": {Transport: remotelog.Sessions}, "auto": {}} {
		step := int64(9)
		if name == "auto" {
			step = 37
		}
		for _, direction := range []string{"requests", "answers"} {
			t.Run(name+"/"+direction, func(t *testing.T) {
				cuts := 0
				for at := int64(1); ; at += step {
					behind := model.New(nil)
					s := serve(t, behind, nil)
					p := newProxy(t, s.Listener.Addr().String())
					place := &p.cutRequestsAt
					if direction == "answers" {
						place = &p.cutAnswersAt
					}
					place.Store(at)
					log := open(t, p.url(), &o)
					// Until the session is open RPC may be used, where nothing is remembered.
					if _, err := log.Head(t.Context()); err != nil && name == "auto" {
						t.Fatal(err)
					}
					appends(t, log, behind)
					if t.Failed() {
						t.Fatalf("the connection was cut at byte %d of the %s", at, direction)
					}
					_ = log.Close()
					p.close()
					s.stop()
					if place.Load() > 0 {
						break // there were not so many bytes
					}
					cuts++
				}
				if cuts < int(400/step) {
					t.Errorf("only %d cuts", cuts)
				}
			})
		}
	}
}

// TestCommitsAreCarriedOutOnceWhileConnectionsBreak cuts each connection after some answers.
func TestCommitsAreCarriedOutOnceWhileConnectionsBreak(t *testing.T) {
	for range 20 {
		p, log, behind := proxied(t, &remotelog.Options{Transport: remotelog.Sessions, Retries: 12})
		p.cutAfter.Store(600)
		appends(t, log, behind)
	}
}

// replaceable serves a log behind a proxy. From restart on, another server does, of the log given.
func replaceable(t *testing.T, behind mainstem.Log) (p *proxy, restart func(mainstem.Log)) {
	t.Helper()
	var current atomic.Pointer[rpc.Handler]
	restart = func(log mainstem.Log) {
		_, h := rpc.NewHandler(log, nil)
		t.Cleanup(func() { _ = h.Close() })
		current.Store(h)
	}
	restart(behind)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	return newProxy(t, s.Listener.Addr().String()), restart
}

// lostCommit commits b through a proxy that loses the answer, and cuts the connection when the
// batch is written and meanwhile has returned. It returns the receipt and error.
func lostCommit(t *testing.T, p *proxy, log, behind mainstem.Log, b *mainstem.Batch, meanwhile func()) (r mainstem.Receipt, err error) {
	t.Helper()
	before := head(t, behind)
	head(t, log) // connects
	written := false
	p.lose(t, &p.dropAnswers, func() { r, err = log.Commit(t.Context(), b) }, "the batch is committed", func() bool {
		if written = head(t, behind) > before; written {
			meanwhile()
		}
		return written
	})
	return r, err
}

// lostRequest commits a batch, on condition that its key is absent, through a proxy that loses the
// request. Meanwhile somebody else writes to the key. It returns the error.
func lostRequest(t *testing.T, p *proxy, log, behind mainstem.Log, id string) (err error) {
	t.Helper()
	if err := log.CreateSpace(t.Context(), "s", mainstem.Policy{}); err != nil { // connects, too
		t.Fatal(err)
	}
	b := put(id, "k", "mine")
	b.IfAbsent("s", []byte("k"))
	lost := p.dropped.Load()
	p.lose(t, &p.dropRequests, func() { _, err = log.Commit(t.Context(), b) }, "the request is lost", func() bool {
		if p.dropped.Load() == lost {
			return false
		}
		if _, err := behind.Commit(t.Context(), put("", "k", "theirs")); err != nil {
			t.Error(err)
		}
		return true
	})
	return err
}

func TestLostAnswerOfCommitIsFoundAgain(t *testing.T) {
	p, log, behind := proxied(t, nil)
	r, err := lostCommit(t, p, log, behind, put("", "k", "v"), func() {})
	if err != nil || r.Duplicate || r.First != 1 || r.Versions[0] != 1 {
		t.Errorf("receipt %+v, %v; want that of the one commit", r, err)
	}
	if head(t, behind) != 1 {
		t.Error("the batch was written twice")
	}
}

// TestLostAnswerIsUnknownToAnotherServer: a server that was started anew, or another one behind
// the same address, does not know the session.
func TestLostAnswerIsUnknownToAnotherServer(t *testing.T) {
	behind := model.New(nil)
	p, restart := replaceable(t, behind)
	log := open(t, p.url(), &remotelog.Options{Transport: remotelog.Sessions})
	_, err := lostCommit(t, p, log, behind, put("", "k", "v"), func() { restart(behind) })
	e := wantError(t, err, mainstem.KindUnavailable, mainstem.Unknown)
	if !errors.Is(err, mainstem.ErrUnknownOutcome) || e.Hint == "" {
		t.Errorf("%v, hint %q", err, e.Hint)
	}
	if head(t, behind) != 1 {
		t.Error("the batch was written twice")
	}
	if _, err := log.Commit(t.Context(), put("", "k", "w")); err != nil {
		t.Errorf("the next commit: %v", err)
	}
}

// TestConflictOfCommitThatIsSentAgainIsCertain: the request was lost before the server had it, so
// that the conflict of the second try is all that became of the batch.
func TestConflictOfCommitThatIsSentAgainIsCertain(t *testing.T) {
	p, log, behind := proxied(t, nil)
	wantError(t, lostRequest(t, p, log, behind, ""), mainstem.KindConflict, mainstem.NotWritten)
}
