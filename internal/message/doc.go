// Package message converts between the contract of package mainstem and the
// messages of its RPC service, for the server (package rpc) and the client
// (package remotelog). Everything here is a pure function of its arguments.
//
// Functions called EncodeX make a message of X; DecodeX makes X of a message that
// came over the wire. [Records] encodes many records into memory that is used again.
// AppendX and ParseX are the same for the bytes of a message, without a message of
// Protobuf in between, which would be most of the work of a small call.
//
// # Guarantees
//
// What is encoded and decoded is the same: bytes, nil and empty values, the order
// and repetition of headers, nanoseconds. (Times lose their location and come
// back in UTC.) A decoded message is well formed, with every number in the range
// of its Go type; whether it makes sense to a log is left to the Validate methods
// of the contract. What cannot be decoded is an Invalid [mainstem.Error] that
// names the field.
//
// # Concurrency and ownership
//
// Decoded values share their bytes with the message, which must not be changed or
// used again while they are in use. EncodeX functions borrow the bytes
// they are given until the message has been marshalled; [Records] copies them.
//
// # Testing
//
// Every decoder has a fuzz target, and every pair a property test that goes there
// and back.
package message
