package engines

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/wire/rpc"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// The servers of a log in a directory.
var (
	remoteOS       = suite.Server{Name: "mainstem-os", Start: startRemote(mainstem.OS)}
	remoteInterval = suite.Server{Name: "mainstem-interval", Start: startRemote(mainstem.Interval(time.Second))} // as Redis with appendfsync everysec
	remoteFsync    = suite.Server{Name: "mainstem-fsync", Start: startRemote(mainstem.Fsync)}
)

func remote(s suite.Server, d suite.Durability) Engine {
	return Engine{
		Name: "mainstem-remote-" + string(d), Durability: d, Transport: suite.LoopbackTCP, Server: true,
		Note: "a log in a directory, served on loopback by sessions, frames of its own protocol",
		Open: func(ctx context.Context, env *suite.Env, dir string) (mainstem.Log, error) {
			address, stop, err := env.Serve(ctx, s, dir)
			if err != nil {
				return nil, err
			}
			log, err := remotelog.Open(address, &remotelog.Options{Transport: remotelog.Sessions}) // nothing slower without a word
			if err != nil {
				return nil, errors.Join(err, stop())
			}
			return &served{log, stop}, nil
		},
	}
}

// startRemote serves a log in a directory on a free port of loopback.
func startRemote(d mainstem.Durability) func(context.Context, string) (string, func() error, error) {
	return func(_ context.Context, dir string) (string, func() error, error) {
		log, err := pebblelog.Open(dir, &pebblelog.Options{Durability: d})
		if err != nil {
			return "", nil, err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, closeAll(err, log)
		}
		path, handler := rpc.NewHandler(log, nil)
		mux := http.NewServeMux()
		mux.Handle(path, handler)
		mux.Handle(rpc.SessionPath, handler)
		server := &http.Server{Handler: mux}
		rpc.ConfigureServer(server)
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		stop := func() error {
			err := errors.Join(handler.Close(), server.Close())
			if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
				err = errors.Join(err, served)
			}
			return errors.Join(err, log.Close())
		}
		return "http://" + l.Addr().String(), stop, nil
	}
}
