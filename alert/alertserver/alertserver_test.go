package alertserver_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// change says what a test wants of a server and its alert tables.
type change func(c *server.Config, a *alertserver.Config)

// running is a server with alert tables.
type running struct {
	*server.Server
	alerts *alertserver.Alerts
}

// config returns the configuration of a server in memory, with alert tables, as do wants it.
func config(do change) (server.Config, *alertserver.Alerts) {
	c, a := server.DefaultConfig(), alertserver.New()
	c.Log, c.Listen, c.Components = server.Memory, "127.0.0.1:0", a.Components()
	if do != nil {
		do(&c, &a.Config)
	}
	return c, a
}

// open opens such a server. It is stopped when the test ends.
func open(t *testing.T, do change) running {
	t.Helper()
	c, a := config(do)
	n, err := server.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return running{n, a}
}

// start opens a server and starts it.
func start(t *testing.T, do change) running {
	t.Helper()
	n := open(t, do)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}
