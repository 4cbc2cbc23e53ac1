// Package shapes holds the Protobuf messages of the comparison between codecs in
// package binary: each is one of its shapes, as somebody who uses Protobuf would
// write it. No program links it.
//
// shapes.proto is the source. The generated code is that of the reference
// implementation and of vtprotobuf, by their generators as go.mod pins them.
package shapes

//go:generate go run ./gen
