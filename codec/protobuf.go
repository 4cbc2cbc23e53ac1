package codec

import (
	"reflect"

	"google.golang.org/protobuf/proto"
)

// Protobuf carries generated messages in the Protobuf wire format. Decode takes
// a message, or a pointer to a message pointer, which it sets to a new message:
// so a bucket of *pb.User works. Unknown fields are kept. Equal messages with
// maps may have different encodings.
var Protobuf Codec = protobufCodec{}

type protobufCodec struct{}

func (protobufCodec) Name() string { return "protobuf" }

func (protobufCodec) Append(dst []byte, v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return dst, encodeError("protobuf", v, errNotProto)
	}
	if !m.ProtoReflect().IsValid() {
		return dst, encodeError("protobuf", v, errNilMessage)
	}
	out, err := proto.MarshalOptions{}.MarshalAppend(dst, m)
	if err != nil {
		return dst, encodeError("protobuf", v, err)
	}
	return out, nil
}

func (protobufCodec) Decode(src []byte, v any) error {
	if m, ok := v.(proto.Message); ok {
		if !m.ProtoReflect().IsValid() {
			return decodeError("protobuf", v, errNilTarget)
		}
		return unmarshalProto(src, m, v)
	}
	to := reflect.ValueOf(v)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return decodeError("protobuf", v, errNilTarget)
	}
	to = to.Elem()
	zero, ok := reflect.Zero(to.Type()).Interface().(proto.Message)
	if !ok || to.Kind() != reflect.Pointer {
		return decodeError("protobuf", v, errNotProto)
	}
	m := zero.ProtoReflect().New().Interface()
	if err := unmarshalProto(src, m, v); err != nil {
		return err
	}
	to.Set(reflect.ValueOf(m))
	return nil
}

func unmarshalProto(src []byte, m proto.Message, v any) error {
	if err := proto.Unmarshal(src, m); err != nil {
		return decodeError("protobuf", v, err)
	}
	return nil
}
