package testfaults_test

import (
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testfaults"
)

// Commits fail in each way, and what an error says of the outcome is so; reads fail as often as they are asked to.
func TestLog(t *testing.T) {
	under := model.New(nil)
	log := testfaults.New(under, 1, testfaults.Reads{Get: 2, Scan: 2, Feed: 2})
	outcomes := map[mainstem.Outcome]int{}
	written, lost := 0, 0
	for range 200 {
		before, err := under.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", []byte("k"), nil)
		_, err = log.Commit(t.Context(), b)
		var e *mainstem.Error
		if err != nil && (!errors.As(err, &e) || !errors.Is(err, testfaults.Err) || !errors.Is(err, mainstem.ErrUnavailable)) {
			t.Fatal(err)
		}
		after, herr := under.Head(t.Context())
		if herr != nil {
			t.Fatal(herr)
		}
		switch {
		case err == nil || e.Outcome == mainstem.NotWritten:
			if (after > before) != (err == nil) {
				t.Errorf("%v, from %d to %d", err, before, after)
			}
		case after > before:
			written++
		default:
			lost++
		}
		if err != nil {
			outcomes[e.Outcome]++
		}
	}
	if outcomes[mainstem.NotWritten] == 0 || written == 0 || lost == 0 || outcomes[mainstem.Unknown] != written+lost {
		t.Errorf("outcomes %v, of them %d were written and %d lost", outcomes, written, lost)
	}
	failed := map[string]int{}
	for range 100 {
		if _, err := log.Get(t.Context(), "s", []byte("k")); errors.Is(err, testfaults.Err) {
			failed["get"]++
		}
		for _, err := range log.Scan(t.Context(), "s", mainstem.Range{}) {
			if errors.Is(err, testfaults.Err) {
				failed["scan"]++
			}
		}
		for _, err := range log.Feed(t.Context(), mainstem.Filter{}) {
			if errors.Is(err, testfaults.Err) {
				failed["feed"]++
			}
		}
	}
	for _, op := range []string{"get", "scan", "feed"} {
		if n := failed[op]; n < 20 || n > 200 {
			t.Errorf("%s failed %d times of 100", op, n)
		}
	}
	sure := testfaults.New(under, 1, testfaults.Reads{})
	for range 100 {
		if _, err := sure.Get(t.Context(), "s", []byte("k")); err != nil {
			t.Errorf("get without faults: %v", err)
		}
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}
