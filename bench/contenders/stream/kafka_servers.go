package stream

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic"
	wire "github.com/mainstemdev/mainstem/wire/kafka"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

// The servers of Kafka's protocol that the bench can start.
var (
	kafkaInMemory = suite.Server{Name: "mainstem-kafka-memory", Start: startMainstem(func(string) (mainstem.Log, error) { return pebblelog.OpenMemory(nil) })}
	kafkaOS       = suite.Server{Name: "mainstem-kafka-os", Start: startMainstem(directory(mainstem.OS))}
	kafkaFsync    = suite.Server{Name: "mainstem-kafka-fsync", Start: startMainstem(directory(mainstem.Fsync))}

	fakeInMemory = suite.Server{Name: "kfake-memory", Start: startFake(func(string) []kfake.Opt { return nil })}
	fakeFsync    = suite.Server{Name: "kfake-fsync", Start: startFake(func(dir string) []kfake.Opt {
		return []kfake.Opt{kfake.DataDir(dir), kfake.SyncWrites()}
	})}
)

func servers() []suite.Server {
	return []suite.Server{kafkaInMemory, kafkaOS, kafkaFsync, fakeInMemory, fakeFsync, engines.NATS, engines.NATSSync}
}

func servedMainstem() []stream.Factory {
	const note = "Mainstem's Kafka listener on loopback"
	return []stream.Factory{
		broker(kafkaInMemory, suite.Memory, note+", log in memory"),
		broker(kafkaOS, suite.OS, note), broker(kafkaFsync, suite.Fsync, note),
	}
}

func kfakeMemory() stream.Factory {
	return broker(fakeInMemory, suite.Memory, "franz-go's fake broker, which keeps everything in memory and nothing on disk")
}

func kfakeFsync() stream.Factory {
	return broker(fakeFsync, suite.Fsync, "franz-go's fake broker with a data directory and a sync for each batch")
}

func directory(d mainstem.Durability) func(string) (mainstem.Log, error) {
	return func(dir string) (mainstem.Log, error) { return pebblelog.Open(dir, &pebblelog.Options{Durability: d}) }
}

// stopWait bounds how long a server may take to stop.
const stopWait = 10 * time.Second

// startMainstem serves a log to Kafka clients on a free port of loopback.
func startMainstem(open func(dir string) (mainstem.Log, error)) func(context.Context, string) (string, func() error, error) {
	return func(ctx context.Context, dir string) (string, func() error, error) {
		log, err := open(dir)
		if err != nil {
			return "", nil, err
		}
		catalog, err := topic.Open(log, nil)
		if err != nil {
			return "", nil, errors.Join(err, log.Close())
		}
		// What the server runs outlives the call.
		server, err := wire.Open(context.WithoutCancel(ctx), catalog, nil)
		if err != nil {
			return "", nil, errors.Join(err, catalog.Close(), log.Close())
		}
		stop := func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
			defer cancel()
			return errors.Join(server.Shutdown(ctx), catalog.Close(), log.Close())
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, errors.Join(err, stop())
		}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l, nil) }()
		return l.Addr().String(), func() error {
			err := stop()
			if served := <-ended; !errors.Is(served, mainstem.ErrClosed) {
				err = errors.Join(err, served)
			}
			return err
		}, nil
	}
}

// startFake starts franz-go's fake broker.
func startFake(options func(dir string) []kfake.Opt) func(context.Context, string) (string, func() error, error) {
	return func(_ context.Context, dir string) (string, func() error, error) {
		c, err := kfake.NewCluster(append(options(dir), kfake.NumBrokers(1))...)
		if err != nil {
			return "", nil, err
		}
		return c.ListenAddrs()[0], func() error { c.Close(); return nil }, nil
	}
}
