// Package shapespb holds the shapes of the codec suite as Protobuf messages, as
// somebody who uses Protobuf would write them.
//
// shapes.proto is the source. The generated code is that of the reference
// implementation (protoc-gen-go) and of vtprotobuf (protoc-gen-go-vtproto with the
// features marshal, unmarshal and size), both with paths=source_relative and at the
// versions in go.mod.
package shapespb

//go:generate go run ./gen
