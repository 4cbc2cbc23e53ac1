// Package freeport finds addresses for listeners that close and listen again.
//
// It does what internal/testport does. This module's servers and proxies are used by a module
// that tests librdkafka, which would depend on the project and all of its modules for the sake
// of that package.
//
// # Testing
//
// The tests of this package ask for many addresses and listen on each.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports lie below those that the system gives to listeners on port 0.
const (
	first = 20000
	last  = 32000
)

// attempts is how many ports Address tries before it gives up.
const attempts = 100

// Address returns an address of loopback where nobody listens now. Nobody else gets it, here or
// from internal/testport, until this process ends: the UDP port of its number stays bound. It
// is safe for concurrent use.
func Address() (string, error) {
	var err error
	for range attempts {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first))
		if err = reserve(address); err == nil {
			return address, nil
		}
	}
	return "", fmt.Errorf("none of %d ports between %d and %d is free: %w", attempts, first, last, err)
}

// reserve takes the address for this process if it is free.
func reserve(address string) error {
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

// kept are the UDP ports of the addresses that were returned.
var kept struct {
	sync.Mutex
	ports []net.PacketConn
}
