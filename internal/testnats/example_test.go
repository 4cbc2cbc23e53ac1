package testnats_test

import (
	"testing"

	"github.com/mainstemdev/mainstem/internal/testnats"
)

func ExampleNewServer() {
	_ = func(t *testing.T) { // in a test
		s := testnats.NewServer(t, nil)
		conn := testnats.Connect(t, s.URL())
		if err := conn.Publish("orders", []byte("1")); err != nil {
			t.Error(err)
		}
	}
	// Output:
}
