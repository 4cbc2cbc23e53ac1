package netio_test

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actortest"
	"github.com/mainstemdev/mainstem/actor/netio"
)

// killOften kills the actor of a supervisor again and again, and fails the test if a restart has
// failed. where waits until the actor runs again.
func killOften[A actor.Actor[M], M any](t *testing.T, fresh func() A, where func(actor.Ref[M]) string) {
	t.Helper()
	const kills = 30
	node := actortest.Node(t)
	o := &actor.SupervisorOptions{Limit: actor.Limit{Intensity: 2 * kills, Window: time.Hour}}
	s, err := actor.Supervise(node, o, actor.NewChild("a", fresh, nil))
	if err != nil {
		t.Fatal(err)
	}
	r, err := actor.ChildRef[M](t.Context(), s, "a")
	if err != nil {
		t.Fatal(err)
	}
	address := where(r)
	for range kills {
		r.Kill()
		if again := where(r); again != address {
			t.Fatalf("it listens on %s, want %s", again, address)
		}
	}
	i, err := node.Inspect(r.Address())
	if err != nil || i.Incarnation != kills+1 {
		t.Errorf("incarnation %d after %d kills, %v: some restarts have failed", i.Incarnation, kills, err)
	}
}

// A killed actor frees its address before its supervisor restarts it.
func TestKilledActorsFreeTheirAddresses(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("listener", func(t *testing.T) {
		killOften(t, func() *netio.Listener {
			return &netio.Listener{
				Address: address,
				Accept: func(*actor.Context[netio.Address], net.Addr) (actor.Ref[netio.Event], error) {
					return actor.Ref[netio.Event]{}, net.ErrClosed
				},
			}
		}, func(r actor.Ref[netio.Address]) string { return where(t, r) })
	})
	t.Run("server", func(t *testing.T) {
		killOften(t, func() *netio.Server {
			return &netio.Server{Address: address, Handler: http.NotFoundHandler()}
		}, func(r actor.Ref[netio.Address]) string { return where(t, r) })
	})
	t.Run("socket", func(t *testing.T) {
		p := actortest.NewProbe[netio.Datagram](t, actortest.Node(t))
		killOften(t, func() *netio.Socket {
			return &netio.Socket{Address: address, To: p.Ref()}
		}, func(r actor.Ref[netio.Datagram]) string {
			return actortest.Ask(t, r, func(a actor.Reply[net.Addr]) netio.Datagram { return netio.Datagram{Where: a} }).String()
		})
	})
}
