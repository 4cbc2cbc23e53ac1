// Package bounds computes what the body of a request costs to decode before it is
// decoded.
//
// Kafka's requests say how many elements an array has and how many tags follow a
// structure, and the decoder of package kmsg trusts them: it allocates an array for
// the count claimed, as long as one byte is left for each element, and counts down
// the tags claimed whether or not there are any. A client that lies makes the server
// allocate 100 bytes and more for each byte that it sends, or busy for a minute with a
// request of 20 bytes.
//
// [Check] walks a body as the decoder will, without allocating, and returns the bytes
// of memory that decoding takes, or an error for a body whose counts and lengths do
// not fit what is there. What it has passed costs what it says.
//
//	cost, err := bounds.Check(int16(kmsg.Fetch), 12, body, 8<<20)
//
// The layouts of requests are not written down here. They are learnt from the encoder
// of package kmsg, once for each kind and version: a field is changed, and what becomes
// of the encoded request tells whether the version has the field, and how it is
// written.
//
// # Concurrency
//
// Check may be called from many goroutines. It borrows the body until it returns.
//
// # Testing
//
// Random requests of every kind and version are encoded by package kmsg and walked; a
// fuzz test decodes what was passed and measures what that allocates.
//
//snippet:import "github.com/twmb/franz-go/pkg/kmsg"
//snippet:var body []byte
package bounds
