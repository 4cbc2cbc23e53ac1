package kafka_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/interop/java"
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

// libraries are those whose scenarios run here.
func libraries() []kafka.Library {
	return []kafka.Library{franz.Library(), sarama.Library(), segmentio.Library(), confluent.Library()}
}

// columns are those of the table: the scenarios of the Java clients run in package java.
func columns() []kafka.Library {
	return append(libraries(), java.New(java.Kafka36).Library(), java.New(java.Kafka41).Library())
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
	kafka.CheckDocument(t, document, "clients", kafka.ClientsTable(columns()), *rewrite)
}

func TestTableOfVersions(t *testing.T) {
	table, err := kafka.VersionsTable(t.Context(), target.Mainstem(t).Kafka)
	if err != nil {
		t.Fatal(err)
	}
	kafka.CheckDocument(t, document, "versions", table, *rewrite)
}
