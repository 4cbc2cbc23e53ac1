package alertserver_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/internal/servertest"
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
	a := alertserver.New()
	c := servertest.Config(a.Components()...)
	if do != nil {
		do(&c, &a.Config)
	}
	return c, a
}

// open opens such a server. It is stopped when the test ends.
func open(t *testing.T, do change) running {
	t.Helper()
	c, a := config(do)
	return running{servertest.Open(t, c), a}
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
