package suite

import (
	"context"
	"fmt"
	"log/slog"
)

// Env is where an entry runs.
type Env struct {
	// Dir is an empty directory of this entry alone, on the disk that is measured.
	// The runner of the entry removes it.
	Dir string
	// Addresses has the servers that the user named, by kind: "kafka", "redis",
	// "etcd", "postgres", "nats", "mainstem".
	Addresses map[string]string
	// Quick asks for small data: a tenth of what a full run seeds, or less. The
	// operation itself stays what it is.
	Quick bool
	// Log takes what a contender has to say; never nil.
	Log *slog.Logger
	// Spawn starts one of the known servers in another process; nil where there is
	// none, as in Go benchmarks. Entries use Serve.
	Spawn func(ctx context.Context, name, dir string) (address string, stop func() error, err error)
}

// Server is a peer that the bench starts itself.
type Server struct {
	Name string // "nats-server"; unique among all suites
	// Start starts the server with its files in dir and returns the address that
	// clients dial, and what stops it. ctx bounds the start only.
	Start func(ctx context.Context, dir string) (address string, stop func() error, err error)
}

// Serve starts a server for this entry, with its files in dir, in another process
// if possible: its memory and allocations are then not those of the contender. In
// Go benchmarks it runs in the same process and its allocations count; so do not
// compare allocations across the two. Stop it in Round.Close.
func (env *Env) Serve(ctx context.Context, s Server, dir string) (address string, stop func() error, err error) {
	if env.Spawn != nil {
		return env.Spawn(ctx, s.Name, dir)
	}
	return s.Start(ctx, dir)
}

// NeedAddress is the Skip of contenders whose server the user names by its kind.
func NeedAddress(kind string) func(*Env) string {
	return func(env *Env) string {
		if env.Addresses[kind] != "" {
			return ""
		}
		return fmt.Sprintf("no %s server: give one with --address %s=…", kind, kind)
	}
}

// Address returns the address that the user gave for a kind of server. Without one the
// error matches [ErrSkip].
func (env *Env) Address(kind string) (string, error) {
	if reason := NeedAddress(kind)(env); reason != "" {
		return "", Skipf("%s", reason)
	}
	return env.Addresses[kind], nil
}
