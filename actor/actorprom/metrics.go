package actorprom

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem/actor"
)

// Options configure [Metrics]; nil means the defaults.
type Options struct {
	// Buckets are the upper bounds of the buckets of both histograms, in seconds, ascending.
	// Default [DefaultBuckets].
	Buckets []float64
}

// DefaultBuckets returns the default of [Options].Buckets: powers of ten from 1 µs to 10 s. The
// slice is the caller's.
func DefaultBuckets() []float64 {
	return []float64{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10}
}

// Metrics are an [actor.Observer] and a [prometheus.Collector]. Make them with [New].
type Metrics struct {
	started, ended, dropped *prometheus.CounterVec
	waited, handled         *prometheus.HistogramVec
	timers                  sync.Map // type of an actor (string) -> timer

	mu    sync.Mutex    // guards nodes
	nodes []*actor.Node // those of Watch
}

var (
	_ actor.Observer       = (*Metrics)(nil)
	_ prometheus.Collector = (*Metrics)(nil)
)

// timer are the histograms of one type of actor. They are cached because Handled is called for each
// message.
type timer struct{ waited, handled prometheus.Observer }

// The descriptions of the metrics of Watch.
var (
	actorsNow = prometheus.NewDesc("mainstem_actor_actors",
		"Actors that live, by the type of the actor.", []string{"node", "type", "state"}, nil)
	messagesNow = prometheus.NewDesc("mainstem_actor_mailbox_messages",
		"Messages that wait in mailboxes, by the type of the actor.", []string{"node", "type"}, nil)
)

// New makes metrics. Pass them to a node as its observer and to a registry.
func New(o *Options) *Metrics {
	buckets := DefaultBuckets()
	if o != nil && o.Buckets != nil {
		buckets = o.Buckets
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mainstem_actor_" + name, Help: help}, labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mainstem_actor_" + name, Help: help, Buckets: buckets}, []string{"type"})
	}
	return &Metrics{
		started: counter("started_total", "Incarnations of actors that have begun.", "type"),
		ended:   counter("ended_total", "Incarnations of actors that have ended, by reason.", "type", "reason"),
		dropped: counter("dead_letters_total", "Messages that nobody handled, by the type of the message.", "message", "reason"),
		waited:  histogram("waited_seconds", "How long messages were in a mailbox."),
		handled: histogram("handled_seconds", "How long actors took for a message."),
	}
}

// Watch adds a node to those whose actors and mailboxes are counted at each scrape. Metrics keep
// the node in memory until Unwatch. A second call for a node does nothing.
func (m *Metrics) Watch(n *actor.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, known := range m.nodes {
		if known == n {
			return
		}
	}
	m.nodes = append(m.nodes, n)
}

// Unwatch removes a node of Watch.
func (m *Metrics) Unwatch(n *actor.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, known := range m.nodes {
		if known == n {
			m.nodes = append(m.nodes[:i:i], m.nodes[i+1:]...)
			return
		}
	}
}

// Started counts an incarnation that has begun.
func (m *Metrics) Started(a actor.AnyRef) { m.started.WithLabelValues(actor.TypeOf(a)).Inc() }

// Ended counts an incarnation that has ended.
func (m *Metrics) Ended(a actor.AnyRef, reason error) {
	m.ended.WithLabelValues(actor.TypeOf(a), label(reason)).Inc()
}

// Handled observes how long a message waited and how long it took.
func (m *Metrics) Handled(a actor.AnyRef, waited, took time.Duration, _ error) {
	name := actor.TypeOf(a)
	found, ok := m.timers.Load(name)
	if !ok {
		found, _ = m.timers.LoadOrStore(name, timer{m.waited.WithLabelValues(name), m.handled.WithLabelValues(name)})
	}
	t := found.(timer)
	t.waited.Observe(waited.Seconds())
	t.handled.Observe(took.Seconds())
}

// Dropped counts a dead letter.
func (m *Metrics) Dropped(l actor.DeadLetter) {
	m.dropped.WithLabelValues(fmt.Sprintf("%T", l.Message), label(l.Reason)).Inc()
}

// label returns the value of the label reason: one of few words.
func label(reason error) string {
	var panicked *actor.PanicError
	switch {
	case errors.As(reason, &panicked):
		return "panic"
	case errors.Is(reason, actor.ErrStopped):
		return "stopped"
	case errors.Is(reason, actor.ErrMailboxFull):
		return "mailbox_full"
	case errors.Is(reason, actor.ErrUnreachable):
		return "unreachable"
	}
	if name, ok := actor.ReasonName(reason); ok {
		return strings.ReplaceAll(name, " ", "_")
	}
	return "error"
}

// parts returns the metrics without those of Watch.
func (m *Metrics) parts() []prometheus.Collector {
	return []prometheus.Collector{m.started, m.ended, m.dropped, m.waited, m.handled}
}

// Describe sends the descriptions of the metrics; a registry calls it.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, p := range m.parts() {
		p.Describe(ch)
	}
	ch <- actorsNow
	ch <- messagesNow
}

// Collect sends the metrics; a registry calls it at each scrape.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, p := range m.parts() {
		p.Collect(ch)
	}
	m.mu.Lock()
	nodes := append([]*actor.Node(nil), m.nodes...)
	m.mu.Unlock()
	type kind struct{ node, of, state string }
	actors, messages := make(map[kind]int), make(map[kind]int)
	for _, n := range nodes {
		for _, i := range n.Walk() {
			actors[kind{n.Name(), i.Behaviour, i.State}]++
			messages[kind{n.Name(), i.Behaviour, ""}] += i.Waiting
		}
	}
	for k, n := range actors {
		ch <- prometheus.MustNewConstMetric(actorsNow, prometheus.GaugeValue, float64(n), k.node, k.of, k.state)
	}
	for k, n := range messages {
		ch <- prometheus.MustNewConstMetric(messagesNow, prometheus.GaugeValue, float64(n), k.node, k.of)
	}
}
