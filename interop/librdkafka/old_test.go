package librdkafka_test

import (
	"flag"
	"os"
	"testing"

	librdkafka "github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/mainstemdev/mainstem/interop/kafka"
	"github.com/mainstemdev/mainstem/interop/kafka/confluent"
	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

var (
	targetName  = flag.String("target", "mainstem", "what to run against: mainstem, kfake, or the `address` of a broker")
	programPath = flag.String("program", "", "a mainstem `program` that is built already")
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "16") // the scenarios wait more than they compute
	flag.Parse()
	target.Use(*programPath)
	code := m.Run()
	target.Remove()
	os.Exit(code)
}

// TestOldLibrdkafka fails if the module was moved to a version that is not old.
func TestOldLibrdkafka(t *testing.T) {
	if number, text := librdkafka.LibraryVersion(); number > 0x020b00ff {
		t.Fatalf("librdkafka %s is not from before 2.11.1", text)
	}
	old := confluent.Library()
	old.Name = "old-librdkafka"
	old.Cannot = map[string]string{"group-next": "the protocol of KIP-848 was a preview then, of a version that no broker serves any more"}
	kafka.Run(t, old, target.Start(t, *targetName))
}
