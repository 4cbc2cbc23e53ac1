package journal

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A spare that was requested before all spares were removed, and is prepared late, is not made.
func TestLateRequestMakesNoSpare(t *testing.T) {
	s := spares{fs: vfs.NewMem(), first: page}
	have := func(when string, want int64) {
		t.Helper()
		if err := s.prepare(page); err != nil {
			t.Fatal(err)
		}
		if got := s.size.Load(); got != want {
			t.Errorf("%s there are %d bytes of spares, want %d", when, got, want)
		}
	}
	s.wanted.Store(true)
	have("after a request", page)
	if err := s.removeAll(); err != nil {
		t.Fatal(err)
	}
	have("after a request from before they were removed", 0)
	s.wanted.Store(true)
	have("after another request", page)
}
