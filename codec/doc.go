// Package codec turns Go values into the bytes that a log stores, and back.
//
// A [Codec] appends the encoding of a value to a buffer and decodes a value from
// bytes. Three are here: [JSON] for any Go type, [Protobuf] for generated
// messages, and [Raw] for bytes and strings as they are.
//
//	buf, err := codec.JSON.Append(nil, user)
//	err = codec.JSON.Decode(buf, &user)
//
// # Guarantees
//
// What Decode reads from the output of Append equals the value that was encoded,
// within what the format can say: JSON replaces invalid UTF-8 in strings, loses
// the difference between nil and empty where a type's own methods lose it, and
// reads numbers into an interface as float64. Raw is exact, and keeps nil and
// empty byte slices distinct when it appends to a nil buffer.
//
// # Concurrency and ownership
//
// A Codec is safe for concurrent use. Append keeps neither the buffer nor the
// value. Decode never keeps src: the decoded value shares no memory with it.
//
// # Errors
//
// Every error is an [*Error], which names the codec, the direction, the Go type
// and the cause.
//
// # Limits
//
// Decode is safe on hostile input: the libraries bound nesting (JSON at 10,000
// levels, Protobuf at 10,000), and no codec allocates much more than the input
// describes. Bounding the input is up to the caller.
//
// # Testing
//
// Each decoder has a fuzz target: whatever it accepts must survive another round.
package codec
