package pebblelog

import (
	"testing"
	"testing/synctest"

	"github.com/mainstemdev/mainstem"
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
