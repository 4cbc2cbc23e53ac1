// Package testnats starts real NATS servers with JetStream inside the process of
// a test, and breaks them on request.
//
// A [Server] is one server on a loopback port of its own with its store in the
// test's temporary directory. [NewServer] starts one alone, [NewCluster] starts
// several that form one JetStream cluster. Both end with the test: nobody has to
// stop anything.
//
//	s := testnats.NewServer(t, nil)
//	conn := testnats.Connect(t, s.URL())
//
//	c := testnats.NewCluster(t, 3, nil)
//	conn = testnats.Connect(t, c.URL(), nats.MaxReconnects(-1))
//	leader := c.Leader("ORDERS")
//	leader.Stop()  // the others elect a new leader; clients reconnect to them
//	leader.Start() // on the same port and with the same store
//	c.WaitHealthy("ORDERS")
//
// # Guarantees
//
// A server that NewServer or Start returned, and a cluster that NewCluster or
// WaitHealthy returned, answers JetStream requests. A restarted server keeps its address and its data.
// What goes wrong fails the test at once, with the reason.
//
// # Concurrency and ownership
//
// The methods may be called by the goroutine of the test only, as those of
// testing.TB that end a test; URL, Stop and Running by any goroutine.
//
// # Limits
//
// Stop is an orderly shutdown as far as the store is concerned: a server within
// the process cannot be killed. Clients and the other nodes see no difference.
//
// # Testing
//
// The tests of this package write through a node that is then stopped.
//
//snippet:import "github.com/nats-io/nats.go"
package testnats
