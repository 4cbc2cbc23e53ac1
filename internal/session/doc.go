// Package session is the connection below the fast protocol of a served log: frames,
// the order in which they are written, credit, and signs of life. It knows neither logs
// nor what is in a message; package rpc is the server on it, package remotelog the client.
//
// # Words
//
// A [Conn] is one end of a connection. A call is a request and its answer, under a number
// that the client gives. A message is a sequence of bytes of a call; it travels in one
// frame or in several, its pieces. [Flow] is the credit of one call: how many bytes of
// messages the other side takes of it. A [Reader] reads frames.
//
//	c := session.New(conn, session.Windows{Call: 256 << 10, Session: 32 << 20}, nil)
//	c.Queue(session.AppendHello(nil, session.Hello{Version: session.Version}))
//	c.Flush()
//
// # The order of frames
//
// Whatever is small, frames of control and messages of at most [SmallMessage] bytes, is
// appended to one buffer and goes first. Larger messages wait in a queue, from which each
// gets one piece of at most [PieceSize] bytes per turn. So a small answer waits for one
// batch of at most [batchSize] bytes, however many large messages there are.
//
// # Writing
//
// There is no timer: the goroutine that has something to send writes it, if nobody else is
// writing; otherwise that one writes it next, so that what gathers during one write shares
// the next. [Conn.PostAmong] also lets the goroutines that are ready run first. No goroutine that flushes ever waits for the network: it
// makes one attempt that does not block, and leaves the rest to the connection's writer,
// which does. So a reader can answer, and a caller can give up, while the network is
// stuck. Where an attempt without blocking is not possible (TLS, other systems than Unix)
// the writer does everything.
//
// # Credit
//
// A message that is small and all there is of its direction of a call costs nothing: calls
// are limited by number. The bytes of others are taken off the credit of the call and of
// the session, each of which the receiver gives back when it has taken the bytes out of
// its buffers. A call of which nothing is outstanding may send one piece without the
// session's credit, so that slow receivers of other calls cannot stop it for good.
//
// # Concurrency and ownership
//
// The methods of a Conn may be called from many goroutines. A Reader belongs to one at a
// time; what Next returns is valid until it is called again. Bytes given to Queue and Send
// are copied before they return.
//
// # Testing
//
// Every frame is golden in testdata/frames.txt, every decoder is fuzzed, and a test runs
// many messages of random sizes between two ends and compares.
//
//snippet:var conn net.Conn
package session
