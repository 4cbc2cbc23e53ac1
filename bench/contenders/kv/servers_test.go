package kv

import (
	"net"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// TestServersThatAreGone: to name a server that does not answer gives a reason.
func TestServersThatAreGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	env := &suite.Env{Addresses: map[string]string{"etcd": address, "redis": address}}
	for _, f := range Factories() {
		if !needsServer(f) {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			if f.Skip(&suite.Env{}) == "" {
				t.Error("it is not skipped without an address")
			}
			if _, err := f.Open(t.Context(), env, ""); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("opened on a port where nobody listens: %v", err)
			}
		})
	}
}
