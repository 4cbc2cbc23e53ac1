package pebblelog

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// Nothing that a commit leaves in memory for the next comes out of a bubble of synctest: to wait for a channel from
// there ends the process.
func TestCommitsStayInTheirBubble(t *testing.T) {
	synctest.Test(t, commitBehindAJob)
	commitBehindAJob(t)
}

// commitBehindAJob makes commits wait for another, and so for their channels.
func commitBehindAJob(t *testing.T) {
	log, err := OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	held, release, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- log.between(context.Background(), "hold", func() {
			close(held)
			<-release
		})
	}()
	<-held
	const commits = 20
	for range commits {
		go func() {
			b := mainstem.NewBatch()
			b.Ensure("s", mainstem.Policy{})
			b.Put("s", []byte("k"), nil)
			_, err := log.Commit(context.Background(), b)
			done <- err
		}()
	}
	testkit.Eventually(t, "the commits to wait", func() bool {
		log.committer.mu.Lock()
		defer log.committer.mu.Unlock()
		return len(log.committer.mu.queue) == commits
	})
	close(release)
	for range commits + 1 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}
