package peers

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// DialNATS starts a server with its files in dir and connects to it. Stop ends both.
func DialNATS(ctx context.Context, env *suite.Env, s suite.Server, dir string) (conn *nats.Conn, stop func() error, err error) {
	address, end, err := env.Serve(ctx, s, dir)
	if err != nil {
		return nil, nil, err
	}
	conn, err = nats.Connect(address)
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return conn, func() error { conn.Close(); return end() }, nil
}
