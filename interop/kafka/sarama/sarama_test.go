package sarama_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/interop/kafka"
	"github.com/mainstemdev/mainstem/interop/kafka/sarama"
)

func TestMain(m *testing.M) {
	// go-metrics, which sarama keeps its figures with, has a ticker for the whole process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// What goes on with a broker is the business of package kafka.
func TestWithoutABrokerNothingIsLeft(t *testing.T) {
	l := sarama.Library()
	c := l.New(kafka.Endpoint{Address: "127.0.0.1:1"})
	if p, err := c.Producer(t.Context(), kafka.ProducerOptions{Topic: "t", Acks: kafka.AcksAll, Codec: "none"}); err == nil {
		t.Errorf("a producer without a broker: %v", p.Close())
	}
	if m, err := c.Consumer(t.Context(), kafka.ConsumerOptions{Topic: "t", Group: "g"}); err == nil {
		t.Errorf("a member without a broker: %v", m.Close())
	}
	for name := range l.Cannot {
		if !known(name) {
			t.Errorf("Cannot names %q, which is no scenario", name)
		}
	}
}

func known(name string) bool {
	for _, s := range kafka.Scenarios() {
		if s.Name == name {
			return true
		}
	}
	return false
}
