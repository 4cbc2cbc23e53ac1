// Package codec turns Go values into the bytes that a log stores, and back.
//
// A [Codec] appends the encoding of a value to a buffer and decodes a value from
// bytes. Here are [JSON] and [Gob] for any Go type, and [Raw] for bytes and strings as
// they are. Packages below this one hold those that need a library: cbor, msgpack, and
// protobuf for generated messages; and binary, a compact format of Mainstem's own.
//
//	buf, err := codec.JSON.Append(nil, user)
//	err = codec.JSON.Decode(buf, &user)
//
// # Guarantees
//
// What Decode reads from the output of Append equals the value that was encoded,
// within what the format can say. JSON replaces invalid UTF-8 in strings, and reads
// numbers into an interface as float64. MessagePack has no time zones, Gob no
// difference between nil and empty, and all lose what a type's own methods lose. Raw
// is exact, and keeps nil and empty byte slices distinct when it appends to a nil
// buffer.
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
// Decode is safe on hostile input: nesting is bounded (JSON and Protobuf at 10,000
// levels, MessagePack and CBOR at 1,000), and no codec allocates much more than the
// input describes. [Gob] is the exception, and not for input from strangers. Bounding
// the input is up to the caller.
//
// Append trusts its caller. Values nested deeper than Decode allows are encoded, and
// one that contains itself by pointers ends the process with a stack overflow, but
// for JSON, which refuses it.
//
// # Testing
//
// Each decoder but Gob's has a fuzz target: whatever it accepts must survive another
// round.
//
//snippet:type User struct{ Name string }
//snippet:var user User
package codec
