// Package link delivers byte messages between named nodes: authenticated, in order and exactly
// once, over TCP connections that may break and be replaced. It does not interpret messages;
// package cluster sends the messages of actors with it.
//
// # Nouns
//
// An [Endpoint] is one node's side of all its sessions. A [Peer] is a session with one
// incarnation of another node: it begins with a handshake, outlives its connections, and ends
// once. A [Handler] receives the messages of sessions and is called when they begin and end. A
// lane is a number that the sender gives a message: messages of one lane keep their order.
//
//	a, err := link.Open(&link.Options{Name: "a", TLS: certificates, Resolve: addresses}, handler)
//	b, err := a.Peer(ctx, "b")
//	err = b.Send(ctx, lane, link.ExactlyOnce, func(dst []byte) ([]byte, error) {
//		return append(dst, "hello"...), nil
//	})
//
// A session has a fixed number of streams. Each lane belongs to one stream, and each stream is
// carried by one connection at a time. Messages are appended to frames of at most 64 KiB while the
// frame before is being written, so small messages share a write and none waits for a timer. A
// frame with an [ExactlyOnce] message has a number. Numbered frames are kept until the peer has
// acknowledged them. A new connection begins with the first numbered frame that the peer has not
// received.
//
// # Guarantees
//
// Delivery: an [ExactlyOnce] message is given to the peer's handler once, as long as the session
// lives, however often connections break. When a session ends, its unacknowledged messages are
// given to Undelivered; the peer may have handled them. An [AtMostOnce] message is lost with its
// connection, unless it shares a frame with an ExactlyOnce message or is sent in parts.
//
// Order: messages of one lane arrive in the order in which Send accepted them, whatever their
// mode. There is no order between lanes.
//
// Flow: at most [Options.Window] bytes per peer are pending, plus the last message of each stream.
// A numbered frame is pending until the handler has returned from all its messages and the
// acknowledgement has arrived, so a slow receiver slows down its senders. A frame of AtMostOnce
// messages is pending until it has been written, where TCP's flow control slows the sender, and the
// numbered frames before it in its stream are acknowledged.
//
// Sessions: a session has a random ID and belongs to one incarnation of each node. A new
// incarnation of a node ends the session with the one before. An incarnation earlier than one that
// was seen is refused, as long as the node is one of the 2*[Options.MaxPeers] whose sessions ended
// last. A session ends when one of its streams has had no connection for
// [Options.Resume]. Two nodes that dial each other at the same time get one session.
//
// # Security
//
// TLS 1.3 with certificates at both ends, each for the name of its node (see [NameURI]; package
// devca makes certificates for development). In addition each end proves that it has
// [Options.Secret], by an HMAC over the transcript of the handshake (nonces, names and incarnations
// of both), the role of the prover, and keying material exported from the TLS connection. Until
// both proofs are verified, only handshake messages are decoded. Each is at most 1 KiB long, one
// deadline covers the whole handshake, and [Options.MaxHandshakes] limits the accepted connections
// that have proven nothing.
//
// With [Options.Plain] the handshake is the same without TLS. It keeps out strangers who can
// connect, but not those who can read or change the traffic of others.
//
// # Concurrency and ownership
//
// All methods may be called by many goroutines. The package owns the bytes of messages: a handler
// must copy the bytes that it keeps. A connection has two goroutines, one that reads and one that
// writes; a stream has one that dials. [Endpoint.Close] waits for all of them.
//
// # Limits
//
// [MaxName], [MaxConnections] and the fields of [Options], each with its default. A message of
// [Options.MaxMessage] bytes needs that much memory at both ends. A stream sends one message that
// is larger than a frame at a time.
//
// # Testing
//
// The tests put a proxy between two nodes that cuts, truncates, corrupts, silences and
// delays connections at random bytes; -link.seed repeats a run. The sending half of a stream is
// compared with a model, every decoder is fuzzed, and the bytes of every message of the protocol
// are compared with golden ones.
//
//snippet:var certificates *link.TLS
//snippet:var addresses func(ctx context.Context, name string) (string, error)
//snippet:var handler link.Handler
//snippet:var lane uint32
package link
