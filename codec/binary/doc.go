// Package binary is Mainstem's own codec: compact, fast, and able to read what an
// older or newer version of a type wrote. docs/codec.md defines every byte of it.
//
//	orders := binary.New(nil)
//	buf, err := orders.Append(nil, &order)
//	err = orders.Decode(buf, &order)
//
// A [Registry] is a [codec.Codec], so every view can use it. It compiles a program
// per type when it first sees the type, and knows the types that interfaces may
// hold by the names and numbers that [Registry.Register] and
// [Registry.RegisterNumber] gave them. A [Coder] does the same for one type that is
// known where the program is written. [Registry.AppendAny] writes a value together
// with its type, [Registry.DecodeAny] gives it back without being told what it is.
//
// # Types
//
// Booleans, integers, floats, complex numbers, strings, byte slices and arrays,
// slices, arrays, maps, structs, pointers, [time.Time], types with binary
// marshaling methods, structs without exported fields with text marshaling
// methods, and interfaces over registered types. Channels, functions, uintptr,
// pointers to what can be nil itself, and map keys whose encoding does not tell
// them apart are refused when the type is first used.
//
// # Fields
//
// A field has a number: that of its tag, as in `bin:"3"`, or one made from its
// name. `bin:"-"` leaves it out, as not being exported does. Fields may be added,
// removed and moved; a field with a tag may also be renamed. A number must never
// be used again for something else. Integers may be widened, and narrowed or
// change sign where the values fit; T may become *T and back; what does not fit is
// an error that matches [ErrMismatch] and names the field. [Registry.Fingerprint]
// tells whether two programs write a type alike, [Registry.Compatible] whether one
// reads what the other writes. Small numbers in tags make small and fast messages:
// those up to 15 take one byte.
//
// # Guarantees
//
// A decoded value equals the encoded one, with nil and empty apart. Times keep
// their instant and offset, not the name of the zone or the monotonic clock.
// Shared pointers become copies. With Options.SortMaps equal values have equal
// bytes. An encoding of today will be read by all later versions of this package.
//
// # Concurrency and ownership
//
// Everything is safe for concurrent use. Append keeps nothing; Decode shares no
// memory with its input, but strings of one message share memory with each other:
// one that is kept holds up to 512 bytes.
//
// # Limits
//
// See [Options]: depth, size and the memory of one decode are bounded, and every
// decoder but a marshaling method of a user's type keeps to them. Input that breaks
// one is an error that matches [ErrLimit]; no input makes a decode panic.
//
// # Testing
//
// Properties over generated values and generated types, golden bytes, versions of a
// type that read each other, and fuzzing of the decoder with its memory measured;
// all of it also under the race detector, which checks the pointers of memory.go,
// the one file that takes addresses apart.
//
//snippet:type Order struct{ ID int }
//snippet:var order Order
package binary
