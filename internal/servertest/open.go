package servertest

import (
	"context"
	"testing"

	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/server"
)

// Config returns the configuration of a server in memory with these components, which
// listens on a free port of this machine. Its StopTimeout only bounds a test that hangs.
func Config(components ...server.Component) server.Config {
	c := server.DefaultConfig()
	c.Log, c.Listen, c.StopTimeout, c.Components = server.Memory, "127.0.0.1:0", testkit.Patience, components
	return c
}

// Open opens a server, which is stopped when the test ends.
func Open(t testing.TB, c server.Config) *server.Server {
	t.Helper()
	n, err := server.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return n
}

// Start opens a server and starts it. It runs until the test ends.
func Start(t testing.TB, c server.Config) *server.Server {
	t.Helper()
	n := Open(t, c)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}
