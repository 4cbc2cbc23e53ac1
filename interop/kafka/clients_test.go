package kafka_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/interop/kafka"
	"github.com/mainstemdev/mainstem/interop/kafka/confluent"
	"github.com/mainstemdev/mainstem/interop/kafka/franz"
	"github.com/mainstemdev/mainstem/interop/kafka/sarama"
	"github.com/mainstemdev/mainstem/interop/kafka/segmentio"
	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

var targetName = flag.String("target", "mainstem", "what to run against: mainstem, kfake, or the `address` of a broker")

var programPath = flag.String("program", "", "a mainstem `program` that is built already")

var patient = flag.Bool("patient", false, "with another -target: wait a minute for it to miss a member of KIP-848")

var rewrite = flag.Bool("rewrite", false, "write the tables of docs/kafka.md")

// libraries are the columns of the table.
func libraries() []kafka.Library {
	return []kafka.Library{franz.Library(), sarama.Library(), segmentio.Library(), confluent.Library()}
}

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "16") // the scenarios wait more than they compute
	flag.Parse()
	target.Use(*programPath)
	code := m.Run()
	target.Remove()
	if code == 0 {
		// go-metrics, which sarama keeps its figures with, has a ticker for the whole process.
		if err := goleak.Find(goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func TestClients(t *testing.T) {
	broker := target.Start(t, *targetName)
	broker.Patient = broker.Patient || *patient
	for _, l := range libraries() {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			kafka.Run(t, l, broker)
		})
	}
}

// document is about what these tests show.
const document = "../../docs/kafka.md"

func TestTableOfClients(t *testing.T) {
	kafka.CheckDocument(t, document, "clients", kafka.ClientsTable(libraries()), *rewrite)
}

func TestTableOfVersions(t *testing.T) {
	table, err := kafka.VersionsTable(t.Context(), target.Mainstem(t).Kafka)
	if err != nil {
		t.Fatal(err)
	}
	kafka.CheckDocument(t, document, "versions", table, *rewrite)
}
