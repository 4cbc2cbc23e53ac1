package remotelog_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// crowd commits values of size bytes, all at the same time, while the server has no memory for
// them. Then the server has memory for one at a time. It returns the errors.
func crowd(t *testing.T, commits, size int) []error {
	process := budget.New("process", 64<<20)
	lines := new(testkit.Lines)
	s := serve(t, model.New(nil), &rpc.Options{Memory: process, MaxPending: int64(size) * 3 / 2, Logger: lines.Logger()})
	log := open(t, s.URL, &remotelog.Options{Retries: -1})
	ensure := mainstem.NewBatch()
	ensure.Ensure("s", mainstem.Policy{})
	if _, err := log.Commit(t.Context(), ensure); err != nil {
		t.Fatal(err)
	}
	taken := process.Child("rpc requests", 0).Hold()
	taken.Take(1 << 40)
	defer taken.Release()

	var all sync.WaitGroup
	failed := make(chan error, commits)
	for i := range commits {
		all.Go(func() {
			b := mainstem.NewBatch()
			b.Put("s", fmt.Append(nil, i), make([]byte, size))
			_, err := log.Commit(t.Context(), b)
			failed <- err
		})
	}
	testkit.Eventually(t, "the requests wait or were refused", func() bool {
		return waiting(process)+len(failed) == commits
	})
	taken.Release()
	all.Wait()
	close(failed)
	if lines.Count("cut") > 0 {
		t.Errorf("the server has ended the session: %v", lines)
	}
	var out []error
	for err := range failed {
		out = append(out, err)
	}
	return out
}

// waiting returns how many holds of a budget, and of those below it, wait.
func waiting(of *budget.Budget) (n int) {
	for _, s := range of.Stats() {
		n += s.Waiting
	}
	return n
}

// Requests that wait for memory have used up the credit of their session, also by the pieces that
// need none. Each that gets memory arrives all the same.
func TestRequestsThatWaitForMemoryArrive(t *testing.T) {
	for _, size := range []int{60 << 10, 300 << 10} {
		for _, err := range crowd(t, 6, size) {
			if err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
	}
}

// Of more requests than may wait for memory, those on top are refused as not written.
func TestManyRequestsThatWaitForMemory(t *testing.T) {
	arrived := 0
	for _, err := range crowd(t, 40, 60<<10) {
		var e *mainstem.Error
		if err == nil {
			arrived++
		} else if !errors.As(err, &e) || e.Kind != mainstem.KindUnavailable || e.Outcome != mainstem.NotWritten || !strings.Contains(err.Error(), "as many requests") {
			t.Error(err)
		}
	}
	if arrived == 0 {
		t.Error("no request has arrived")
	}
}
