// Package target starts what the scenarios of package kafka run against.
//
//	broker := target.Start(t, "mainstem")
//
// The program is built once for each test binary, from the module around this one.
//
// # Concurrency and ownership
//
// A target ends with its test. A [Process] may be killed and started again by one
// goroutine at a time.
//
// # Testing
//
// The tests of package kafka.
package target

import (
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Start starts "mainstem" or "kfake" until the test ends; any other name is the
// address of a broker that runs already.
func Start(t *testing.T, name string) kafka.Broker {
	t.Helper()
	switch name {
	case "mainstem":
		p := Mainstem(t, "--kafka-group-session", "10s", "--kafka-group-heartbeat", "2s")
		return kafka.Broker{Name: name, Address: p.Kafka, Patient: true, Secure: Secure(t), Append: func(t *testing.T, store, stream, kind, value string) {
			t.Helper()
			if _, err := p.Run(t.Context(), "event", "append", stream, value, "--type", kind, "--store", store); err != nil {
				t.Fatal(err)
			}
		}}
	case "kfake":
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{
			"group.consumer.session.timeout.ms": "6000", "group.consumer.heartbeat.interval.ms": "500",
		}))
		if err != nil {
			t.Fatalf("start kfake: %v", err)
		}
		t.Cleanup(c.Close)
		return kafka.Broker{Name: name, Address: c.ListenAddrs()[0], Patient: true}
	}
	return kafka.Broker{Name: "other", Address: name}
}

// Mainstem starts a server with an empty log. It is stopped with the test, and
// has to end well.
func Mainstem(t *testing.T, args ...string) *Process {
	t.Helper()
	return mainstem(t, filepath.Join(t.TempDir(), "log"), args...)
}

func mainstem(t *testing.T, dir string, args ...string) *Process {
	t.Helper()
	p, err := NewProcess(dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the server said:\n%s", p.Output())
		}
	})
	if err := p.Start(); err != nil {
		_ = p.Kill()
		t.Fatal(err)
	}
	return p
}
