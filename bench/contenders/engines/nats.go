package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// NATS and NATSSync are NATS servers with JetStream in files. NATS syncs them
// every two minutes, which is the default of NATS; NATSSync before it acknowledges
// a message.
var (
	NATS     = suite.Server{Name: "nats-server", Start: startNATS(false)}
	NATSSync = suite.Server{Name: "nats-server-fsync", Start: startNATS(true)}
)

// The limits of the servers: a megabyte of payload, as JSON and base64 too, fits.
const (
	natsPayload = 8 << 20
	natsPending = 256 << 20
	natsWait    = 30 * time.Second
)

// Servers returns the servers that engines and peers of more than one suite ask for.
func Servers() []suite.Server {
	return []suite.Server{remoteOS, remoteInterval, remoteFsync, NATS, NATSSync}
}

func nats(s suite.Server, d suite.Durability) Engine {
	note := "one JetStream server on loopback, which syncs every two minutes"
	if d == suite.Fsync {
		note = "one JetStream server on loopback, with sync_interval: always"
	}
	return Engine{
		Name: "mainstem-nats-" + string(d), Durability: d, Transport: suite.LoopbackTCP, Note: note, Server: true, Restarts: true,
		Open: func(ctx context.Context, env *suite.Env, dir string) (mainstem.Log, error) {
			address, stop, err := env.Serve(ctx, s, dir)
			if err != nil {
				return nil, err
			}
			log, err := natslog.Open(address, nil)
			if err != nil {
				return nil, errors.Join(err, stop())
			}
			return &served{log, stop}, nil
		},
	}
}

// startNATS starts a server on a free port of loopback.
func startNATS(sync bool) func(context.Context, string) (string, func() error, error) {
	return func(ctx context.Context, dir string) (string, func() error, error) {
		srv, err := server.NewServer(&server.Options{
			ServerName: "bench", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: dir, SyncAlways: sync, MaxPayload: natsPayload, MaxPending: natsPending,
		})
		if err != nil {
			return "", nil, err
		}
		stop := func() error {
			srv.Shutdown()
			srv.WaitForShutdown()
			return nil
		}
		srv.SetLogger(natsLog{}, false, false)
		go srv.Start()
		if !srv.ReadyForConnections(natsWait) {
			return "", nil, errors.Join(fmt.Errorf("NATS server in %s: not ready after %v", dir, natsWait), stop(), ctx.Err())
		}
		return srv.ClientURL(), stop, nil
	}
}

// natsLog writes warnings and errors to standard error, where the bench finds what the
// answers to a client leave out.
type natsLog struct{}

func (natsLog) Noticef(string, ...any) {}
func (natsLog) Debugf(string, ...any)  {}
func (natsLog) Tracef(string, ...any)  {}

func (natsLog) Warnf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "warning: "+format+"\n", args...)
}
func (natsLog) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "error: "+format+"\n", args...)
}
func (natsLog) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "fatal: "+format+"\n", args...)
}
