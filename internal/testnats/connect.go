package testnats

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Connect returns a connection to a server or a cluster, closed when the test ends. To connect
// may take as long as [Patience], as long as the options do not say otherwise.
func Connect(t testing.TB, url string, o ...nats.Option) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(url, append([]nats.Option{nats.Timeout(Patience)}, o...)...)
	if err != nil {
		t.Fatalf("testnats: connect to %s: %v", url, err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// JetStream returns JetStream on a connection. Its requests may take as long as [Patience],
// where their contexts have no deadline.
func JetStream(t testing.TB, conn *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(Patience))
	if err != nil {
		t.Fatalf("testnats: JetStream: %v", err)
	}
	return js
}
