// Package testport finds ports for servers that a test stops and starts again.
//
// A server that listens on port 0 gets a port of the system's range for such
// requests, and when it stops, the next one who asks, maybe the test of another
// package, may get that port: the clients of the stopped server then talk to a
// stranger. The ports of [Free] lie below that range, so that only another
// call of Free can choose the same one, and it does not: a process keeps the UDP port of
// the same number until it ends, which tells all others that the port is taken.
//
// # Testing
//
// The tests of this package ask for many ports and listen on each.
package testport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// The ports that Free chooses from lie between those of well-known services and
// those that systems give out by themselves: from 32768 on Linux, from 49152
// elsewhere (RFC 6335, section 6).
const (
	first = 20000
	last  = 32000
)

// attempts is how many ports Free tries before it gives up.
const attempts = 100

// Free returns a TCP port of 127.0.0.1 that nobody listens on now, and that no other call
// of Free returns until this process ends. The UDP port of that number stays bound. It is
// safe for concurrent use.
func Free() (int, error) {
	var err error
	for range attempts {
		port := first + rand.IntN(last-first)
		if err = reserve(port); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("testport: none of %d ports between %d and %d is free: %w", attempts, first, last, err)
}

// Address returns 127.0.0.1 with a port of [Free].
func Address(t testing.TB) string {
	t.Helper()
	port, err := Free()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// reserve takes the port for this process if it is free.
func reserve(port int) error {
	address := fmt.Sprintf("127.0.0.1:%d", port)
	reserved, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		_ = reserved.Close()
		return err
	}
	kept.Lock()
	kept.ports = append(kept.ports, reserved) // else the garbage collector would close it
	kept.Unlock()
	return l.Close()
}

// kept are the UDP ports of those that Free has returned.
var kept struct {
	sync.Mutex
	ports []net.PacketConn
}
