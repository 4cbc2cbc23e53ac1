package pebblelog

import (
	"testing"
	"testing/synctest"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// A space that one batch of a run creates has its own policy for the batches after it,
// which did not know the space when they came: they must not be committed as those of a
// space with one record for each key.
func TestRunCreatesSpace(t *testing.T) { synctest.Test(t, testRunCreatesSpace) }

func testRunCreatesSpace(t *testing.T) {
	l, err := OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := t.Context()
	history := mainstem.Policy{History: 5}
	var first, second, third mainstem.Batch
	first.Ensure("test/x", history)
	second.Put("test/x", []byte("k"), []byte("one"))
	third.Put("test/x", []byte("k"), []byte("two"))
	batches := []*mainstem.Batch{&first, &second, &third}
	errs := make(chan error, len(batches))
	err = l.between(ctx, "test", func() {
		for _, b := range batches {
			go func() {
				_, err := l.Commit(ctx, b)
				errs <- err
			}()
			synctest.Wait() // it is in the queue
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for range batches {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	var got []string
	for rec, err := range l.Read(ctx, "test/x", []byte("k"), mainstem.Versions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(rec.Value))
	}
	if len(got) != 2 || got[0] != "one" || got[1] != "two" {
		t.Errorf("the history of the key is %q, want both records", got)
	}
}

// TestLargeBatchStaysAlone forms a group behind a batch that is as large as a group may be.
func TestLargeBatchStaysAlone(t *testing.T) {
	waiting := func(size int) *waiter {
		var b mainstem.Batch
		b.Put("s", []byte("k"), make([]byte, size))
		return &waiter{batch: &b}
	}
	for size, want := range map[int]int{1: 3, groupBytes: 1} {
		var c committer
		c.mu.queue = []*waiter{waiting(1), waiting(1)}
		if got := len(c.take([]*waiter{waiting(size)})); got != want {
			t.Errorf("a group behind a batch of %d bytes has %d batches, want %d", size, got, want)
		}
	}
}

// TestMostBatchBytes sets the limit of a batch to the largest value, and above it.
func TestMostBatchBytes(t *testing.T) {
	for size, valid := range map[int]bool{maxBatchBytes: true, maxBatchBytes + 1: false} {
		o := &Options{Limits: mainstem.Limits{MaxValue: size, MaxBatchBytes: size}}
		if err := o.Validate(); (err == nil) != valid {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if most, frame := 2*(maxBatchBytes+groupBytes), format.MaxJournalSegment; most > frame*3/4 {
		t.Errorf("the batches of a run take up to %d bytes of a frame of at most %d", most, frame)
	}
}
