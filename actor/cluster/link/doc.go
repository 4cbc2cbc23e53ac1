// Package link delivers messages between named nodes: authenticated, in order and
// exactly once, over connections that may break. Messages are bytes; what is in them,
// and that actors send them, is for packages above.
//
// # Nouns
//
// An [Endpoint] is a node's end of everything. A [Peer] is a session with one
// incarnation of another node: it begins with a handshake, outlives its connections, and
// ends once. A [Handler] gets notice of sessions and takes messages. A lane is
// a number that says which messages keep their order: of one sender to one receiver.
//
//	a, err := link.Open(&link.Options{Name: "a", TLS: certificates, Resolve: addresses}, handler)
//	b, err := a.Peer(ctx, "b")
//	err = b.Send(ctx, lane, link.ExactlyOnce, func(dst []byte) ([]byte, error) {
//		return append(dst, "hello"...), nil
//	})
//
// A session has streams, each carried by one connection at a time; a lane belongs to
// one of them. Messages gather in frames while the frame before is being written, so many small
// messages share a write and nobody waits for a timer. Frames with messages that must arrive
// have numbers. They are kept until the peer has acknowledged them; a new connection
// begins with the first frame that the peer does not have.
//
// # Guarantees
//
// Delivery: [ExactlyOnce] messages are given to the peer's handler once, as long as
// the session lives, however often connections break. When a session ends, what was not
// acknowledged is given to Undelivered: it may have arrived. [AtMostOnce] messages
// are lost with their connection, unless they share a frame with one that is not.
//
// Order: messages of one lane arrive in the order in which Send took them, whatever
// their mode. There is none between lanes.
//
// Flow: at most [Options.Window] bytes per peer wait, plus the last message of each connection. A
// frame counts until the handler has returned from its messages, so a slow node
// slows down those that send to it. AtMostOnce messages count until they have been
// written: for them TCP slows the sender.
//
// Sessions: both ends know a session by the incarnations of both. A peer that has
// started again ends the session with what it was before; an incarnation that is earlier than one
// that has been seen is refused. A session whose connection is not made again within
// [Options.Resume] ends. If two nodes dial each other at the same time, there is
// one session.
//
// # Security
//
// TLS 1.3 with certificates at both ends, each for the name of its node (see
// [NameURI], and package devca for development). In addition both ends prove that they
// know [Options.Secret]: by an HMAC over the whole handshake, which has nonces,
// names and incarnations of both, the proving end's role, and what binds it to
// the TLS connection. Before that nothing is decoded but the handshake. Its messages are
// at most 1 KiB long, have one deadline together, and unproven connections a limit.
//
// With [Options.Plain] the handshake is the same without TLS, which keeps strangers
// out who can connect, but not those who can read or change what others send.
//
// # Concurrency and ownership
//
// All methods may be called by many goroutines. Bodies belong to the package: a handler
// must copy what it keeps. Each connection has two goroutines; [Endpoint.Close] waits for
// all of them.
//
// # Limits
//
// [MaxName], [MaxConnections] and the options: each has a default and a name in errors. A
// message of [Options.MaxMessage] bytes needs that much memory at both ends; one per
// connection is on its way at a time.
//
// # Testing
//
// The tests put a proxy between two nodes that cuts, truncates, corrupts, silences and
// delays connections at random bytes; -link.seed repeats a run. The sending half of a stream is
// compared with a model, every decoder is fuzzed, every byte of the protocol is golden.
//
//snippet:var certificates *link.TLS
//snippet:var addresses func(ctx context.Context, name string) (string, error)
//snippet:var handler link.Handler
//snippet:var lane uint32
package link
