// Package netio has actors that own blocking input and output, like ports, gen_tcp and gen_udp of
// Erlang: a TCP connection or listener, a UDP socket, an HTTP server, a process of the operating
// system.
//
// # Nouns
//
// A [Conn] is a connection, a [Process] a running program. Both take a [Command], to write, and
// send an [Event] to the receiver, an actor that the field To names, for all that they read. A
// [Listener] spawns a Conn for each connection that it accepts. A [Socket] takes and sends a
// [Datagram]. A [Server] serves HTTP; [Handler] makes a message of each request.
//
// They are values with fields to set, to be spawned or given to a supervisor, which dials, listens
// or starts the program again when they fail:
//
//	child := actor.NewChild("upstream", func() *netio.Conn {
//		return &netio.Conn{Dial: dial, To: ref, Framing: netio.Lines()}
//	}, &actor.ChildOptions{Backoff: actor.Backoff{Min: time.Second, Max: time.Minute}})
//
// # Guarantees
//
// The events of one actor arrive in order: [Opened], then data, then [Closed] after all data.
// Closed is a dead letter if the actor is asked to end while the mailbox of the receiver is full.
// The bytes of the commands of one sender are written in the order of the commands. No data is
// dropped: if sending an Event fails, the actor ends. Datagrams may be lost. However an actor ends,
// also by Kill, its connection, listener or socket is closed, and its process is ended.
//
// Back-pressure: as long as the mailbox of the receiver has a limit, the policy [actor.Block] and
// no room, nothing more is read. A mailbox with a limit of the Conn itself holds up those that
// write.
//
// # Concurrency and ownership
//
// Each actor has goroutines that read; they end with it. The bytes of an Event or Datagram belong
// to the receiver. Those of a Command must not be changed until Done is answered.
//
// # Limits
//
// [MaxFrame] unless the Framing says otherwise, [MaxBody], [MaxDatagram].
//
// # Testing
//
// Blocking input and output is real: it does not work in the virtual time of testing/synctest.
//
//snippet:var dial func(context.Context) (net.Conn, error)
//snippet:var ref actor.Ref[netio.Event]
package netio
