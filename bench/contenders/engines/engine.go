package engines

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Every is the interval of the engines at durability interval.
const Every = 100 * time.Millisecond

// Engine opens a log of one kind.
type Engine struct {
	Name       string // as in [suite.Entry.Contender]
	Durability suite.Durability
	Note       string // one sentence on what is particular to it, if anything
	// Transport and Address are as in [suite.Entry].
	Transport suite.Transport
	Address   string
	// Server is true if the log is in another process, or is reached as if it were.
	Server bool
	// Restarts is true if a log can be opened from a copy of its directory.
	Restarts bool
	// Skip is as in [suite.Entry]; nil means that the engine can always be opened.
	Skip func(env *suite.Env) string
	// Open opens a log that is new, or that a log opened before left in dir.
	Open func(ctx context.Context, env *suite.Env, dir string) (mainstem.Log, error)
}

// All returns every engine, the embedded ones first.
func All() []Engine {
	return []Engine{
		memory(),
		directory("os", suite.OS, mainstem.OS),
		directory("interval", suite.Interval, mainstem.Interval(Every)),
		directory("fsync", suite.Fsync, mainstem.Fsync),
		remote(remoteOS, suite.OS),
		remote(remoteInterval, suite.Interval),
		remote(remoteFsync, suite.Fsync),
		nats(NATS, suite.OS),
		nats(NATSSync, suite.Fsync),
		postgres("interval", suite.Interval, mainstem.Interval(time.Second)),
		postgres("fsync", suite.Fsync, mainstem.Fsync),
	}
}

func memory() Engine {
	return Engine{
		Name: "mainstem-pebble-memory", Durability: suite.Memory, Transport: suite.InProcess,
		Note: "the embedded engine on a file system in memory",
		Open: func(context.Context, *suite.Env, string) (mainstem.Log, error) { return pebblelog.OpenMemory(nil) },
	}
}

func directory(name string, d suite.Durability, asked mainstem.Durability) Engine {
	return Engine{
		Name: "mainstem-pebble-" + name, Durability: d, Transport: suite.InProcess, Restarts: true,
		Note: "the embedded engine in a directory",
		Open: func(_ context.Context, _ *suite.Env, dir string) (mainstem.Log, error) {
			return pebblelog.Open(dir, &pebblelog.Options{Durability: asked})
		},
	}
}

// served is a log whose server ends with it.
type served struct {
	mainstem.Log
	stop func() error
}

// Close closes the log and stops its server.
func (s *served) Close() error { return errors.Join(s.Log.Close(), s.stop()) }

// closeAll closes what was opened so far, the newest first, when opening fails.
func closeAll(err error, closers ...io.Closer) error {
	for _, c := range closers {
		err = errors.Join(err, c.Close())
	}
	return err
}
