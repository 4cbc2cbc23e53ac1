package lease_test

import (
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
)

// Close removes the member whichever of the keeper's goroutines first sees the session end.
func TestWhoClosesIsGoneAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		for start := range uint64(200) {
			a := join(t, log, "a", start)
			if _, err := a.Acquire(t.Context(), "k", ""); err != nil {
				t.Fatal(err)
			}
			leave(t, a)
			for _, key := range []string{"member/a", "beat/a", "lease/k"} {
				if _, err := log.Get(t.Context(), a.Space(), []byte(key)); !errors.Is(err, mainstem.ErrNotFound) {
					t.Fatalf("%s after Close: %v, want NotFound", key, err)
				}
			}
		}
	})
}
