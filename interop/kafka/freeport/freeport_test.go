package freeport_test

import (
	"net"
	"testing"

	"github.com/mainstemdev/mainstem/interop/kafka/freeport"
)

// TestAddress asks for so many addresses that two would be the same, were they chosen by chance.
func TestAddress(t *testing.T) {
	seen := map[string]bool{}
	for range 500 { // the chance of 500 different ones of 12,000 is one in 30,000
		address, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] {
			t.Fatalf("%s was returned twice", address)
		}
		seen[address] = true
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil { // a server that is stopped for a while
			t.Fatal(err)
		}
	}
}
