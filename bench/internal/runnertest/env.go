package runnertest

import (
	"log/slog"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Env returns where an entry runs in a test: in a directory of its own, with small data.
// It has the servers that addresses names, nil if there are none.
func Env(t testing.TB, addresses map[string]string) *suite.Env {
	t.Helper()
	return &suite.Env{Dir: Dir(t), Quick: true, Addresses: addresses, Log: slog.New(slog.DiscardHandler)}
}

// Try does a few rounds of n operations of an entry that needs no server; see [suite.Try].
func Try(t testing.TB, e *suite.Entry, rounds, n int) error {
	t.Helper()
	return suite.Try(t.Context(), e, Env(t, nil), rounds, n)
}
