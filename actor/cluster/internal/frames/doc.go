// Package frames encodes and decodes the frames that the nodes of a cluster send each other. Each is
// a struct, with a method that appends it and a function that parses it.
//
// # Nouns
//
// A frame is one message of package link, which keeps its length and, within a lane, its order. It
// has a byte with the [Kind] and flags, then fields without names. Numbers are unsigned varints in
// their shortest form, a text has its length before it, and the last field of some kinds is the
// rest of the frame.
//
//	kind   1 byte  bits 0–4 the kind; bits 5–7 flags of that kind
//	fields         as the comment of the struct shows
//
// A [Target] is an actor of the node that gets the frame: its number, or, with flag 0x80, its name.
// A [Value] is the number of a type in the [Catalog] of the sender, and a value of the type as the
// codec has encoded it.
//
// # Guarantees
//
// Parse functions are pure: they read nothing but their argument, and allocate no more than in
// proportion to it. They return an error that matches [ErrMalformed] for every frame that no Append
// method writes; they do not look into values and errors. They never panic.
//
// # Concurrency and ownership
//
// Byte slices of parsed frames share the bytes of the input; strings are copies.
//
// # Limits
//
// [MaxText] for names; [MaxEntries] for a catalog.
//
// # Testing
//
// Golden bytes, and a fuzz target that appends again what it has parsed.
package frames
