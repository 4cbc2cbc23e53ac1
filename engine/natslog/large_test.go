package natslog_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// A batch of many writes says far more about keys, and its receipt about versions, than
// the headers of one message hold. It is committed, known by its ID, and repacked.
func TestLargeBatch(t *testing.T) {
	const writes, left = 20_000, 6_000
	l := openTidy(t)
	key := func(n int) []byte { return fmt.Appendf(nil, "%s %d", strings.Repeat("key", 10), n) }
	b := &mainstem.Batch{ID: "import"}
	b.Ensure("b", mainstem.Policy{History: 1})
	for n := range writes {
		b.Add(mainstem.Write{Space: "b", Key: key(n), Count: 1 << 24}) // for versions that take bytes
	}
	known := func(what string, log *natslog.Log, records int64) {
		t.Helper()
		if in, err := log.Space(t.Context(), "b"); err != nil || in.Records != records {
			t.Fatalf("%s: the space is %+v, want %d records: %v", what, in, records, err)
		}
		r := mustCommit(t, log, &mainstem.Batch{ID: b.ID})
		if !r.Duplicate || r.Last != writes || len(r.Versions) != writes {
			t.Fatalf("%s: the batch has the receipt %d to %d with %d versions, duplicate: %v", what, r.First, r.Last, len(r.Versions), r.Duplicate)
		}
	}
	mustCommit(t, l, b)
	known("the log", l.Log, writes)
	known("a new one", open(t, l.url, l.o), writes)
	l.write(func(b *mainstem.Batch) {
		for n := range writes - left {
			b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "b", Key: key(n)})
		}
	})
	l.messages()
	if _, err := l.stream.GetMsg(t.Context(), 1); err == nil {
		t.Fatal("a message that was repacked is still there")
	}
	known("the log, repacked", l.Log, left)
	known("a new one, repacked", open(t, l.url, l.o), left)
}

// What a sweep says about the keys whose records it removes takes more than the headers of
// one message.
func TestSweepOfManyLongKeys(t *testing.T) {
	l := openTidy(t)
	if err := l.CreateSpace(t.Context(), "s", mainstem.Policy{MaxBytes: 1}); err != nil {
		t.Fatal(err)
	}
	l.write(func(b *mainstem.Batch) {
		for n := range 600 {
			b.Put("s", fmt.Appendf(nil, "%s %d", bytes.Repeat([]byte("k"), 200), n), nil)
		}
	})
	l.messages()
	if in, err := l.Space(t.Context(), "s"); err != nil || in.Records != 0 {
		t.Fatalf("after the sweep the space is %+v: %v", in, err)
	}
}

// Commits that the servers do not take together are written one by one.
func TestCommitsThatAreTooLargeTogether(t *testing.T) {
	t.Parallel()
	srv := testnats.NewServer(t, &testnats.Options{MaxPayload: 64 << 10, Configure: func(o *server.Options) {
		o.JetStreamLimits.MaxBatchSize = 4
	}})
	p := newProxy(t, srv.URL())
	log := open(t, p.url(), direct(natslog.Options{SweepEvery: -1}))
	mustCommit(t, log, one("", "0"))
	const together = 5 // that many messages, and no more than one frame has
	done := make(chan error, 1+together)
	commit := func(b *mainstem.Batch) {
		_, err := log.Commit(t.Context(), b)
		done <- err
	}
	p.dropRequests.Store(true)
	go commit(one("", "1"))
	testkit.Eventually(t, "the first commit is on its way", log.Asking)
	for n := range together {
		b := mainstem.NewBatch()
		b.Put("s", fmt.Append(nil, n), make([]byte, 50<<10))
		go commit(b)
	}
	testkit.Eventually(t, "the others wait", func() bool { return log.Waiting() == together })
	p.heal()
	var errs []error
	for range 1 + together {
		errs = append(errs, <-done)
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
