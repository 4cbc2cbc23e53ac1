package testport_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/mainstemdev/mainstem/internal/testport"
)

func Example() {
	port, err := testport.Free()
	fmt.Println(port < 32768, err)
	// Output: true <nil>
}

// TestFree asks for so many ports that two would be the same, were they chosen by chance.
func TestFree(t *testing.T) {
	seen := map[int]bool{}
	for range 500 { // the chance of 500 different ones of 12,000 is one in 30,000
		port, err := testport.Free()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("port %d was returned twice", port)
		}
		seen[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil { // a server that is stopped for a while
			t.Fatal(err)
		}
	}
}
