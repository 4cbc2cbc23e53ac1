// Package netio has actors that own blocking input and output: a TCP connection or
// listener, a UDP socket, an HTTP server, a process of the operating system.
//
// # Nouns
//
// A [Conn] is a connection, a [Process] a running program. Both take a [Command], to
// write, and send an [Event] for all that they read to an actor of the user's choice. A
// [Listener] spawns a Conn for each connection that it accepts. A [Socket] takes and sends
// a [Datagram]. A [Server] serves HTTP; [Handler] makes a message of each request.
//
// They are values with fields to set, to be spawned or to be given to a supervisor, which
// dials, listens or starts the program again when they fail:
//
//	child := actor.NewChild("upstream", func() *netio.Conn {
//		return &netio.Conn{Dial: dial, To: ref, Framing: netio.Lines()}
//	}, &actor.ChildOptions{Backoff: actor.Backoff{Min: time.Second, Max: time.Minute}})
//
// # Guarantees
//
// Events of one actor arrive in order: [Opened], then data, then [Closed], which comes
// after everything that was read (it is a dead letter if an actor is asked to end while the
// receiver's mailbox is full). Data written by one sender is written in order. Nothing
// is dropped: if the receiver cannot take an Event, the actor ends. Whatever ends an
// actor, being killed too, what it owns is closed, and the process is ended.
//
// Back-pressure: give the receiver of events a mailbox with [actor.Block], and as long as it
// is full nothing more is read. A bounded mailbox of the Conn itself holds up those who write.
//
// # Concurrency and ownership
//
// Each actor has goroutines of its own that read; they end with it. Bytes of an Event
// or Datagram are the receiver's, those of a Command the actor's until it is done.
//
// # Limits
//
// [MaxFrame] unless the Framing says otherwise, [MaxBody], [MaxDatagram].
//
// # Testing
//
// Blocking input and output is real: it does not work in the virtual time of
// testing/synctest.
//
//snippet:var dial func(context.Context) (net.Conn, error)
//snippet:var ref actor.Ref[netio.Event]
package netio
