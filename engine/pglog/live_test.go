package pglog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// followed starts a follower and returns what it receives.
func followed(t *testing.T, log mainstem.Log, f mainstem.Filter) <-chan string {
	t.Helper()
	out := make(chan string, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	f.Follow = true
	go func() {
		defer close(done)
		for r, err := range log.Feed(ctx, f) {
			if err != nil {
				if !errors.Is(err, mainstem.ErrCanceled) {
					t.Errorf("a follower ended: %v", err)
				}
				return
			}
			out <- fmt.Sprintf("%s@%d=%s", r.Key, r.Version, r.Value)
		}
	}()
	return out
}

func receive(t *testing.T, from <-chan string, want string) {
	t.Helper()
	select {
	case got := <-from:
		if got != want {
			t.Fatalf("a follower received %s, want %s", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("%s did not come within %v", want, patience)
	}
}

// patient never polls: what arrives was pushed.
var patient = &pglog.Options{PollEvery: time.Hour, SweepEvery: time.Hour}

func TestNotificationsReachOtherProcesses(t *testing.T) {
	log, url := openNew(t, patient)
	other := openAt(t, url, patient)
	c := connect(t, url)
	commit(t, log, batch("k", "0"))
	got := followed(t, other, mainstem.Filter{Spaces: []string{"s"}})
	all := followed(t, other, mainstem.Filter{})
	receive(t, got, "k@1=0")
	receive(t, all, "k@1=0")
	commit(t, log, batch("k", "1"))
	receive(t, got, "k@2=1")
	receive(t, all, "k@2=1")
	tx := hold(t, log, c) // the user's own transaction notifies when it is committed
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, got, "held@1=v")
	many := mainstem.NewBatch() // more names than a notification takes
	for n := range 200 {
		many.Ensure(fmt.Sprintf("a space with a rather long name, number %d", n), mainstem.Policy{})
		many.Put(fmt.Sprintf("a space with a rather long name, number %d", n), []byte("k"), nil)
	}
	many.Put("s", []byte("k"), []byte("2"))
	commit(t, log, many)
	receive(t, got, "k@3=2")
}

// Nobody listens, nobody is notified: no follower, no traffic.
func TestCommitsNotifyOnlyListeners(t *testing.T) {
	log, url := openNew(t, patient)
	c := connect(t, url)
	execute(t, c, `LISTEN mainstem_mainstem`) // without the lock that listeners of the engine hold
	commit(t, log, batch("k", "0"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if n, err := c.WaitForNotification(ctx); err == nil {
		t.Errorf("a commit that nobody follows sent %q", n.Payload)
	}
	got := followed(t, log, mainstem.Filter{})
	receive(t, got, "k@1=0")
	commit(t, log, batch("k", "1"))
	receive(t, got, "k@2=1")
	if n, err := c.WaitForNotification(t.Context()); err != nil || n.Payload != "2\ns" {
		t.Errorf("a commit that somebody follows sent %+v, %v", n, err)
	}
}

// A listener whose connection is lost connects again, and what was committed meanwhile
// arrives.
func TestListenerComesBack(t *testing.T) {
	log, url := openNew(t, &pglog.Options{PollEvery: 20 * time.Millisecond})
	other := openAt(t, url, &pglog.Options{PollEvery: 20 * time.Millisecond})
	c := connect(t, url)
	commit(t, log, batch("k", "0"))
	got := followed(t, other, mainstem.Filter{Spaces: []string{"s"}})
	receive(t, got, "k@1=0")
	const listeners = "SELECT count(*) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = 1836253186"
	for n := range 3 {
		testkit.Eventually(t, "somebody listens", func() bool { return value[int](t, c, listeners) == 1 })
		execute(t, c, "SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = 1836253186")
		commit(t, log, batch("k", fmt.Sprint(n)))
		receive(t, got, fmt.Sprintf("k@%d=%d", n+2, n))
	}
}

// A listener whose connection is lost is soon back, however seldom followers look meanwhile.
func TestListenerComesBackBeforeFollowersLook(t *testing.T) {
	log, url := openNew(t, patient)
	other := openAt(t, url, patient)
	c := connect(t, url)
	commit(t, log, batch("k", "0"))
	got := followed(t, other, mainstem.Filter{Spaces: []string{"s"}})
	receive(t, got, "k@1=0")
	listener := func() int {
		return value[int](t, c, "SELECT coalesce(max(l.pid), 0) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = 1836253186")
	}
	testkit.Eventually(t, "somebody listens", func() bool { return listener() != 0 })
	first := listener()
	execute(t, c, fmt.Sprintf("SELECT pg_terminate_backend(%d)", first))
	testkit.Eventually(t, "another connection listens", func() bool { now := listener(); return now != 0 && now != first })
	commit(t, log, batch("k", "1"))
	receive(t, got, "k@2=1")
}
