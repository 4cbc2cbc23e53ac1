package kv

import (
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/internal/testport"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// TestServersThatAreGone: to name a server that does not answer gives a reason.
func TestServersThatAreGone(t *testing.T) {
	address := testport.Address(t)
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
