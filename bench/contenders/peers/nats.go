package peers

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// natsWait is how long a connection or a request of NATS may take. What the client has by default,
// seconds, ends a measurement where a disk or a processor is busy, as no other contender's does.
const natsWait = time.Minute

// ConnectNATS connects to a server.
func ConnectNATS(address string) (*nats.Conn, error) {
	return nats.Connect(address, nats.Timeout(natsWait))
}

// JetStream returns the API of JetStream on a connection.
func JetStream(conn *nats.Conn) (jetstream.JetStream, error) {
	return jetstream.New(conn, jetstream.WithDefaultTimeout(natsWait))
}

// DialNATS starts a server with its files in dir and connects to it. Stop ends both.
func DialNATS(ctx context.Context, env *suite.Env, s suite.Server, dir string) (conn *nats.Conn, stop func() error, err error) {
	address, end, err := env.Serve(ctx, s, dir)
	if err != nil {
		return nil, nil, err
	}
	conn, err = ConnectNATS(address)
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return conn, func() error { conn.Close(); return end() }, nil
}
