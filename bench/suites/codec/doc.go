// Package codec is the suite of workloads for codecs: eight shapes of messages
// between actors, encoded and decoded.
//
// # Nouns
//
// A [Shape] is a type with two values, of which the first is measured and the
// second keeps contenders honest. A [Worker] is a contender at one shape: it encodes
// the value it was given, and decodes into a variable of its own. A [Factory] makes
// workers. [Summarize] makes tables of a run: who won, and how many times as long the
// others took.
//
//	func BenchmarkCodecs(b *testing.B) {
//		codec.Run(b, codec.Factory{Name: "mine", Open: open})
//	}
//
// # Guarantees
//
// All contenders get the same values, and a message is one that means the same: a
// text is a text in each of them. Contenders are used in the way that costs least:
// buffers, encoders and decoders are kept where the library lets one keep them, and
// decoding goes to a variable of the concrete type, which is zero before each
// operation. Encoding appends to a buffer that is large enough. The size of the
// encoding is a metric of every row.
//
// Answers are checked outside of the timed part: what was encoded is decoded by a
// new worker and compared, for both values in turn, so that a worker that remembers
// instead of working is found.
//
// # Concurrency and ownership
//
// A worker belongs to one goroutine. The values of a shape are shared: nobody may
// change them.
//
// # Testing
//
// The tests have workers that cheat, and expect that each is caught.
//
//snippet:var open = codec.Factory{}.Open
package codec
