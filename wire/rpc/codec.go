package rpc

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// smallRequest is the size, in bytes, up to which a request is decoded without counting its parts
// first: it cannot take much memory.
const smallRequest = 64 << 10

// An empty message takes two bytes on the wire and a hundred in memory, so a limit on bytes does
// not limit memory. These codecs count the messages in a large request before they decode it.

// binaryCodec is the codec "proto" of Connect with a limit on parts.
type binaryCodec struct{ maxParts int }

func (binaryCodec) Name() string { return "proto" }

func (binaryCodec) Marshal(m any) ([]byte, error) { return binaryCodec{}.MarshalAppend(nil, m) }

// MarshalAppend lets Connect marshal into its pooled buffers.
func (binaryCodec) MarshalAppend(into []byte, m any) ([]byte, error) {
	p, err := protoMessage(m)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend(into, p)
}

func (c binaryCodec) Unmarshal(data []byte, m any) error {
	p, err := protoMessage(m)
	if err != nil {
		return err
	}
	if err := checkParts(data, p, c.maxParts); err != nil {
		return err
	}
	return proto.Unmarshal(data, p)
}

// checkParts returns an error if data, an encoded message of the type of m, has more parts than
// limit.
func checkParts(data []byte, m proto.Message, limit int) error {
	if len(data) <= smallRequest {
		return nil
	}
	left := limit
	countParts(data, m.ProtoReflect().Descriptor(), &left)
	if left < 0 {
		return tooManyParts(limit)
	}
	return nil
}

// countParts subtracts the number of messages in data, whose type is d, from left, and stops when
// left is negative. It also stops at malformed data, for which decoding returns the error.
func countParts(data []byte, d protoreflect.MessageDescriptor, left *int) {
	for len(data) > 0 && *left >= 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return
		}
		data = data[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
				return
			}
			data = data[n:]
			continue
		}
		content, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return
		}
		data = data[n:]
		f := d.Fields().ByNumber(number)
		if f == nil {
			continue
		}
		if f.Message() != nil || f.IsList() {
			*left--
		}
		if f.Message() != nil {
			countParts(content, f.Message(), left)
		}
	}
}

// jsonCodec is one of the two JSON codecs of Connect with a limit on parts. Unlike those, it
// refuses unknown fields: a misspelt one would otherwise be ignored.
type jsonCodec struct {
	name     string
	maxParts int
}

func (c jsonCodec) Name() string { return c.name }

func (c jsonCodec) Marshal(m any) ([]byte, error) { return c.MarshalAppend(nil, m) }

// MarshalAppend lets Connect marshal into its pooled buffers.
func (c jsonCodec) MarshalAppend(into []byte, m any) ([]byte, error) {
	p, err := protoMessage(m)
	if err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{}.MarshalAppend(into, p)
}

func (c jsonCodec) Unmarshal(data []byte, m any) error {
	p, err := protoMessage(m)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return errors.New("the body is empty: want a JSON object, at least {}")
	}
	// Every message begins with a brace. Braces in texts count too, which does no harm, since
	// only names and metadata are text.
	if len(data) > smallRequest && bytes.Count(data, []byte{'{'}) > c.maxParts {
		return tooManyParts(c.maxParts)
	}
	return protojson.Unmarshal(data, p)
}

func tooManyParts(limit int) error {
	return fmt.Errorf("the request has more than %d writes, conditions, spaces and headers: split it", limit)
}

func protoMessage(m any) (proto.Message, error) {
	p, ok := m.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a Protobuf message", m)
	}
	return p, nil
}
