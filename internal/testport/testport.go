// Package testport finds ports for servers that a test stops and starts again.
//
// A server that listens on port 0 gets a port of the system's range for such
// requests, and when it stops, the next one who asks, maybe the test of another
// package, may get that port: the clients of the stopped server then talk to a
// stranger. The ports of [Free] lie below that range, so that only another
// call of Free can choose the same one.
//
// # Testing
//
// The tests of this package ask for many ports and listen on each.
package testport

import (
	"fmt"
	"math/rand/v2"
	"net"
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

// Free returns a port of 127.0.0.1 that nobody listens on now. It is safe for
// concurrent use.
func Free() (int, error) {
	var err error
	for range attempts {
		port := first + rand.IntN(last-first)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("testport: none of %d ports between %d and %d is free: %w", attempts, first, last, err)
}
