// Package rowjson reads JSON results of alert tables row by row, without
// reflection and without holding the whole result.
//
// # Words
//
// A [Reader] walks over JSON from a stream: objects by their keys, arrays by their
// elements, and values whole. A [Row] is one object of a result in its JSON bytes; its
// values are found by the names of columns when they are asked for. A [Value] is one
// of them, typed as the JSON says: a text, a number, true, false or null.
//
// [Events] reads a stream of server-sent events, whose data is one JSON text each.
//
//	r := rowjson.NewReader(body, nil)
//	err := r.Array(func() error {
//		raw, err := r.Value(nil)
//		fmt.Println(rowjson.NewRow(raw).Text("Node"))
//		return err
//	})
//
// # Guarantees
//
// What Value returns is valid JSON without white space between its parts, in valid
// UTF-8, with the value's own bytes otherwise unchanged: numbers keep their digits,
// strings their escapes. So rows may be copied into another JSON text as they are.
//
// # Errors
//
// All are *mainstem.Error: Corrupt for what is no JSON, Invalid for what is beyond a
// limit, Unavailable for a stream that breaks off.
//
// # Concurrency and ownership
//
// A Reader and an Events belong to one goroutine. A Row shares the bytes that it was made of.
//
// # Limits
//
// [Limits] bounds the bytes of the stream, of one value, and the depth of values; Events
// those of an event.
//
// # Testing
//
// A fuzz test compares the reader with encoding/json, on streams cut anywhere.
//
//snippet:var body io.Reader
package rowjson
