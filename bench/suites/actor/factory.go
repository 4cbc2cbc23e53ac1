package actor

import (
	"context"
	"runtime"
	"strconv"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Name is the name of the suite.
const Name = "actor"

// Factory is a contender. A field that is nil is a workload that it does not take
// part in. What is opened is closed by its Close method; ctx bounds the whole entry.
type Factory struct {
	Name string // as in [suite.Entry.Contender]
	Note string // one sentence on how it is used
	// NetworkOnly and LocalOnly leave out the cases of the other place.
	NetworkOnly, LocalOnly bool
	// Network is how nodes reach each other in the cases over the network; the local
	// ones are in one process.
	Network suite.Transport
	// Ping connects one sender with each of the sinks, on one node or over the network.
	// A sink's receiver calls [Sink.Receive] for every message, one at a time.
	Ping func(ctx context.Context, network bool, sinks []*Sink) (Pinger, error)
	// Ask starts a process that can be asked, on the same node or over the network.
	Ask func(ctx context.Context, network bool) (Asker, error)
	// Spawn opens a node without processes.
	Spawn func(ctx context.Context) (Population, error)
	// Publish subscribes the audience. If that has one node, it is the publisher's own;
	// otherwise the publisher is on a node of its own.
	Publish func(ctx context.Context, a *Audience) (Publisher, error)
}

// Pinger is senders and receivers in pairs.
type Pinger interface {
	// Burst lets the sender of each pair send that many messages, all senders at once:
	// the integers [Message](0), Message(1) and so on. It returns when the last was
	// sent, received or not.
	Burst(ctx context.Context, counts []int) error
	Close() error
}

// Message returns the i-th message of a burst: small, so that nobody pays for an
// integer that is too large for its interface.
func Message(i int) int { return i & 127 }

// Asker is somebody who asks and a process that answers.
type Asker interface {
	// Ask sends v to the process and returns its answer, v+1. It is called from one
	// goroutine.
	Ask(ctx context.Context, v int) (int, error)
	Close() error
}

// Population is a node with very many processes.
type Population interface {
	// Spawn starts n processes that wait for messages, each with a mailbox of its own.
	// Each calls receive with its number for every message: 0 to n-1.
	Spawn(ctx context.Context, n int, receive func(i int)) error
	// Poke sends one message to each process. It may return before they were received.
	Poke(ctx context.Context) error
	Close() error
}

// Publisher is a process whose messages reach all subscribers.
type Publisher interface {
	// Publish sends text to each subscriber. It may return before it was received.
	Publish(ctx context.Context, text string) error
	Close() error
}

// The sizes of the workloads.
const (
	burstOne  = 3_000_000 // messages in one burst from one to one
	burstPair = 1_000_000 // messages of each pair in one burst

	population      = 1_000_000 // processes in scale tests
	smallPopulation = 10_000
	publishes       = 10 // of a round of the scale tests
)

// audiences are the workloads of publishing.
var audiences = []struct {
	name        string
	nodes, each int
	scale       bool
}{
	{"publish/local/1k", 1, 1_000, false},
	{"publish/network/3x10", 3, 10, false},
	{"publish/local/1m", 1, 1_000_000, true},
	{"publish/network/10x100k", 10, 100_000, true},
}

// Entries returns the entries of the contenders.
func Entries(factories ...Factory) []suite.Entry {
	var entries []suite.Entry
	add := func(f Factory, network bool, e suite.Entry) {
		e.Suite, e.Contender, e.Note, e.Durability = Name, f.Name, f.Note, suite.None
		if e.Transport = suite.InProcess; network {
			e.Transport = f.Network
		}
		entries = append(entries, e)
	}
	places := []struct {
		name    string
		network bool
	}{{"local", false}, {"network", true}}
	for _, f := range factories {
		for _, at := range places {
			if !f.takesPart(at.network) {
				continue
			}
			if f.Ping != nil {
				add(f, at.network, pingEntry("ping/"+at.name+"/one", f, at.network, 1, burstOne))
				add(f, at.network, pingEntry("ping/"+at.name+"/pairs", f, at.network, runtime.NumCPU(), burstPair))
			}
			if f.Ask != nil {
				add(f, at.network, askEntry("ask/"+at.name, f, at.network))
			}
		}
		if f.Spawn != nil {
			add(f, false, populationEntry("memory/"+short(smallPopulation), f, smallPopulation, false))
			add(f, false, populationEntry("memory/"+short(population), f, population, true))
		}
		if f.Publish != nil {
			for _, a := range audiences {
				if f.takesPart(a.nodes > 1) {
					add(f, a.nodes > 1, publishEntry(a.name, f, a.nodes, a.each, a.scale))
				}
			}
		}
	}
	return entries
}

func (f *Factory) takesPart(network bool) bool {
	return !(network && f.LocalOnly) && !(!network && f.NetworkOnly)
}

func short(n int) string {
	if n >= 1_000_000 {
		return strconv.Itoa(n/1_000_000) + "m"
	}
	return strconv.Itoa(n/1000) + "k"
}

// Run runs the contenders as Go benchmarks, without the scale tests.
func Run(b *testing.B, factories ...Factory) { suite.Bench(b, Entries(factories...)) }

// RunScale runs the scale tests: a million processes, a million subscribers.
func RunScale(b *testing.B, factories ...Factory) { suite.BenchScale(b, Entries(factories...)) }
