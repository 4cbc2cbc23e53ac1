// Package bounds computes, before the body of a request is decoded, how much memory decoding
// it takes.
//
// The requests of Kafka's protocol give the number of elements of an array and of tags behind
// a structure, and the decoder of package kmsg trusts these numbers: it allocates an array for
// the number claimed, as long as one byte is left for each element, and loops over the tags
// claimed whether or not they are there. With wrong numbers, a client makes the server
// allocate 100 bytes and more for each byte that it sends, or keeps it busy for a minute with
// a request of 20 bytes.
//
// [Check] walks over a body as the decoder does, without allocating, and returns the bytes of
// memory that decoding takes and the number of elements of all arrays, or an error if the counts
// and lengths do not fit the body.
//
//	cost, elements, err := bounds.Check(int16(kmsg.Fetch), 12, body, 8<<20)
//
// # How it works
//
// A layout is the fields of a request in the order in which they are written (layout.go). It
// is learned from the encoder of package kmsg, once for each API and version: a field of a
// default request is changed, and the bytes of the encoded request show whether the version
// has the field and how it is written.
//
//	the same bytes                  the version does not have the field
//	longer by the expected number   the field is written in its place
//	anything else                   the field is written as a tag
//
// check.go walks over a body by a layout and adds up the cost: for arrays the elements in
// memory, for strings their bytes and 16, for tags 512 each. Byte slices refer to the body and
// cost nothing. The bytes of tags are skipped, so there must be no counts in them that the
// decoder trusts: a structure whose schema has tags with arrays or structures may have no
// tags at all. Only brokers send these.
//
// # Concurrency
//
// Check may be called from many goroutines. It does not change or keep the body.
//
// # Testing
//
// Random requests of every API and version are encoded by package kmsg and walked over; a fuzz
// test decodes the bodies that pass and measures the memory.
//
//snippet:import "github.com/twmb/franz-go/pkg/kmsg"
//snippet:var body []byte
package bounds
