package testnats_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem/internal/testnats"
)

func ExampleNewServer() {
	_ = func(t *testing.T) { // in a test
		s := testnats.NewServer(t, nil)
		conn, err := nats.Connect(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	// Output:
}
