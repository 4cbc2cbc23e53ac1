// Package frames has the bodies of what nodes of a cluster send each other, as
// structs, each with the function that appends it and the one that parses it.
//
// # Nouns
//
// A frame is one body of the link below, which keeps its order and its length: a byte
// for the [Kind] and flags, then fields without names. Numbers are unsigned varints, texts
// have their length before them, and what comes last takes the rest.
//
//	kind   1 byte  bits 0–4 what it is; bits 5–7 flags of that kind
//	fields         as the struct of the kind says
//
// A [Target] is an actor of the node that gets the frame: its number, or, with flag
// 0x80, the name it is registered under. A [Value] is the number that the sender has given to a
// type in a [Catalog], and the value as the codec has written it.
//
// # Guarantees
//
// Parse functions are pure: they read nothing but their argument, allocate nothing that the
// input does not pay for, and fail with an error that matches [ErrMalformed] for all that
// no Append function writes, up to what is inside of payloads. They never panic.
//
// # Concurrency and ownership
//
// Parsed frames share the bytes of the input.
//
// # Limits
//
// [MaxText] for names; [MaxEntries] for a catalog.
//
// # Testing
//
// Golden bytes, and a fuzz target that appends again what it has parsed.
package frames
