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

func TestFree(t *testing.T) {
	for range 100 {
		port, err := testport.Free()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // so that the next one has to be another
	}
}
