package target_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

func TestMain(m *testing.M) {
	code := m.Run()
	target.Remove()
	if code == 0 && goleak.Find() != nil {
		code = 1
	}
	os.Exit(code)
}

// TestProcessIsKilledAndStartedAgain shows that a killed server is the same one
// afterwards, at the same address.
func TestProcessIsKilledAndStartedAgain(t *testing.T) {
	p := target.Mainstem(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.Kafka), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for range 2 {
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		before := p.Pid()
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if p.Pid() == before {
			t.Error("the process was not started again")
		}
	}
	out, err := p.Run(context.WithoutCancel(t.Context()), "topic", "describe", "t")
	if err != nil || !strings.Contains(out, "2") {
		t.Errorf("after two kills: %s, %v; want two records", out, err)
	}
}
