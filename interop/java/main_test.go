package java_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/interop/java"
	"github.com/mainstemdev/mainstem/interop/kafka"
	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

var (
	targetName  = flag.String("target", "mainstem", "what the clients run against: mainstem, kfake, or the `address` of a broker")
	programPath = flag.String("program", "", "a mainstem `program` that is built already")
	long        = flag.Bool("long", false, "run everything with both versions, and Streams for longer")
)

// clients are those of each version.
var clients = map[string]*java.Clients{java.Kafka36: java.New(java.Kafka36), java.Kafka41: java.New(java.Kafka41)}

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "16") // the scenarios wait more than they compute
	flag.Parse()
	target.Use(*programPath)
	code := m.Run()
	for version, c := range clients {
		if err := c.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "end the JVM of %s: %v\n", version, err)
			code = 1
		}
	}
	target.Remove()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// needed skips the test, and says so, on a machine without a JDK or Maven. With CI set
// it fails instead. It has Maven build what the test needs: that takes minutes where nothing
// is there yet, so it comes before any deadline.
func needed(t *testing.T) {
	t.Helper()
	missing := java.Missing()
	switch {
	case missing == "":
	case os.Getenv("CI") != "":
		t.Fatalf("tests of Java clients need a JDK (17 or later) and Maven: %s", missing)
	default:
		t.Skip("SKIPPED, NOT TESTED: Java clients need a JDK (17 or later) and Maven: " + missing)
	}
	for version := range clients {
		_, err := java.ClassPath(t.Context(), version)
		must(t, err)
	}
}

func TestClients(t *testing.T) {
	needed(t)
	broker := target.Start(t, *targetName)
	for version, c := range clients {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			kafka.Run(t, c.Library(), broker)
		})
	}
}
