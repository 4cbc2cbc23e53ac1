package footprint

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Name is the name of the suite.
const Name = "footprint"

// The sizes of the workloads.
const (
	connections = 1_000
	partitions  = 1_000
	keys        = 100_000
	manyKeys    = 1_000_000 // in scale tests
	loadSize    = 200_000   // messages stored while pauses are measured
	diskKeys    = 20_000
	diskRounds  = 5

	// ValueSize is the size of a key's value.
	ValueSize = 100
	// MessageSize is the size of a message.
	MessageSize = 1 << 10
)

// Factory is a contender.
type Factory struct {
	Name       string // as in [suite.Entry.Contender]
	Durability suite.Durability
	// Transport is how an operation reaches the data; it is shown in every row.
	Transport suite.Transport
	Note      string // one sentence on how it is used
	// Skip is as in [suite.Entry]; nil means that it can always be started.
	Skip func(env *suite.Env) string
	// Build makes the program, unless it is there, and returns its path.
	Build func(ctx context.Context) (path string, err error)
	// Start starts the program and returns as soon as it can be asked. ctx bounds the
	// start only.
	Start func(ctx context.Context, program string, o Options) (Server, error)
}

// Options say how a server is started.
type Options struct {
	Dir string // where its files are; what a server left there before is found again
	// Pauses asks for what [Server.Pauses] returns.
	Pauses bool
	// Compact asks for background work to begin early, so that there is an end of it.
	Compact bool
}

// Server is a running process.
type Server interface {
	PID() int
	// Put stores values under the keys first, first+1 and so on, durably.
	Put(ctx context.Context, first int, values [][]byte) error
	// Get returns the value of a key.
	Get(ctx context.Context, key int) ([]byte, error)
	// Scan calls f for every key, in any order. What it lends is lent until f returns;
	// its error ends the scan and is returned.
	Scan(ctx context.Context, f func(key int, value []byte) error) error
	// Fill creates a topic, if there is none of that name, and stores so many messages of
	// MessageSize in each of its partitions, in batches of 100 where there are as many.
	Fill(ctx context.Context, topic string, partitions, each int) error
	// Ends returns how many messages each partition of a topic has.
	Ends(ctx context.Context, topic string) ([]int64, error)
	// Connect returns a connection over which something was asked and answered.
	Connect(ctx context.Context) (Connection, error)
	// Pauses returns how long each stop of the world has taken so far.
	Pauses() []time.Duration
	// Stop ends the process in good order and waits for it. Stopping twice is allowed.
	Stop() error
}

// Connection is a client's.
type Connection interface {
	// Ask asks something and reads the answer.
	Ask() error
	io.Closer
}

// Entries returns the entries of the contenders.
func Entries(factories ...Factory) []suite.Entry {
	var entries []suite.Entry
	for _, f := range factories {
		for _, e := range []suite.Entry{
			startEntry(f, "start/new", "start the server in an empty directory, until it has written and read back a value", 0),
			startEntry(f, "start/100k-keys", "start the server in a directory with 100,000 keys, until it has written and read back a value", keys),
			memoryEntry(f, "memory/idle", "resident memory of a server that has been asked once", func(*subject, context.Context) error { return nil }),
			overKafka(memoryEntry(f, "memory/1k-connections", "resident memory with 1,000 connections that have each asked once", (*subject).connect)),
			overKafka(memoryEntry(f, "memory/1k-partitions", "resident memory with a topic of 1,000 partitions that each hold a message", (*subject).partition)),
			memoryEntry(f, "memory/100k-keys", "resident memory after 100,000 keys were put", putKeys(keys)),
			scaled(memoryEntry(f, "memory/1m-keys", "resident memory after a million keys were put", putKeys(manyKeys))),
			overKafka(pausesEntry(f)), binaryEntry(f), diskEntry(f),
		} {
			e.Suite, e.Contender, e.Durability, e.Note, e.Skip = Name, f.Name, f.Durability, f.Note, f.Skip
			if e.Transport == "" {
				e.Transport = f.Transport
			}
			entries = append(entries, e)
		}
	}
	return entries
}

// overKafka marks an entry that asks the Kafka listener.
func overKafka(e suite.Entry) suite.Entry {
	e.Transport = suite.LoopbackTCP
	return e
}

func scaled(e suite.Entry) suite.Entry {
	e.Scale = true
	return e
}

// Run runs the contenders as Go benchmarks. One operation of each says it all:
//
//	go test -bench . -benchtime 1x
func Run(b *testing.B, factories ...Factory) { suite.Bench(b, Entries(factories...)) }

// RunScale runs what takes long: a million keys.
func RunScale(b *testing.B, factories ...Factory) { suite.BenchScale(b, Entries(factories...)) }
