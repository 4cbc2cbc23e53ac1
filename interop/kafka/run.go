package kafka

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/interop/kafka/proxy"
)

// patience bounds one scenario on a slow machine.
const patience = 2 * time.Minute

// Scenario is one promise of a broker to its clients.
type Scenario struct {
	// Name is the row in the table.
	Name string
	// Promise is printed when it is broken.
	Promise string
	// Only names the target that the scenario is about, if not any.
	Only string
	run  func(*Env)
}

// Env is one run of a scenario by a library.
type Env struct {
	*testing.T
	Library Library
	Judge   *Judge
	Address string
	// Run tells apart the topics of several runs against one broker.
	Run string
	// Append writes an event to the broker's log; nil if it has none.
	Append func(t *testing.T, store, stream, kind, value string)
	// Secure is another broker, with TLS and authentication; nil if there is none.
	Secure *Endpoint
	// Patient lets scenarios wait for timeouts that no client can shorten.
	Patient bool

	ctx context.Context
}

// runs counts them.
var runs atomic.Int64

// Run runs every scenario that the library can do, as parallel subtests of t.
func Run(t *testing.T, l Library, broker Broker) {
	for _, s := range Scenarios() {
		if l.Cannot[s.Name] != "" || s.Only != "" && s.Only != broker.Name {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			e := &Env{
				T: t, Library: l, Address: broker.Address, Append: broker.Append, Secure: broker.Secure, Patient: broker.Patient, ctx: ctx,
				Run: fmt.Sprintf("%d-%d", os.Getpid(), runs.Add(1)),
			}
			e.Judge = NewJudge(t, broker.Address)
			defer func() {
				if t.Failed() {
					t.Logf("promise broken: %s", s.Promise)
				}
			}()
			s.run(e)
		})
	}
}

// Broker is what the scenarios run against.
type Broker struct {
	Name    string
	Address string
	Append  func(t *testing.T, store, stream, kind, value string)
	Secure  *Endpoint
	Patient bool
}

// name returns the name of a topic, group or transactional id of this run.
func (e *Env) name(what string) string {
	return nameless.ReplaceAllString(strings.ToLower(fmt.Sprintf("%s.%s.%s", e.Library.Name, what, e.Run)), "-")
}

var nameless = regexp.MustCompile(`[^a-z0-9._-]+`)

// topic makes a topic and returns its name.
func (e *Env) topic(what string, partitions int32) string {
	e.Helper()
	name := e.name(what)
	e.Judge.CreateTopic(e.ctx, name, partitions)
	return name
}

func (e *Env) must(err error, doing string) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", doing, err)
	}
}

// producer opens a producer of the library at the broker.
func (e *Env) producer(o ProducerOptions) Producer {
	e.Helper()
	return e.producerAt(e.Address, o)
}

func (e *Env) producerAt(address string, o ProducerOptions) Producer {
	e.Helper()
	p, err := e.Library.New(Endpoint{Address: address}).Producer(e.ctx, o)
	e.must(err, "open a producer")
	return p
}

func (e *Env) consumer(o ConsumerOptions) Consumer {
	e.Helper()
	return e.consumerAt(e.Address, o)
}

func (e *Env) consumerAt(address string, o ConsumerOptions) Consumer {
	e.Helper()
	c, err := e.Library.New(Endpoint{Address: address}).Consumer(e.ctx, o)
	e.must(err, "open a consumer")
	return c
}

func (e *Env) closed(c interface{ Close() error }) {
	e.Helper()
	e.must(c.Close(), "close")
}

// proxy stands between a client and the broker until the test ends.
func (e *Env) proxy() *proxy.Proxy {
	e.Helper()
	p, err := proxy.Start(e.Address)
	e.must(err, "start a proxy")
	e.Cleanup(p.Close)
	return p
}

// read polls until n records have come.
func (e *Env) read(c Consumer, n int) []Record {
	e.Helper()
	var all []Record
	for len(all) < n {
		got, err := c.Poll(e.ctx)
		if err != nil {
			e.Fatalf("after %d of %d records: %v", len(all), n, err)
		}
		all = append(all, got...)
	}
	return all
}

// numbered returns records with values prefix0, prefix1, ...
func numbered(prefix string, n int) []Record {
	records := make([]Record, n)
	for i := range records {
		records[i] = Record{Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "%s%d", prefix, i)}
	}
	return records
}
