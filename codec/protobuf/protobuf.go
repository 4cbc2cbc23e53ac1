// Package protobuf is the [codec.Codec] for generated Protobuf messages. It stands
// apart from package codec so that only programs which use it link the runtime.
//
//	users, err := kv.Open[*wrapperspb.StringValue](log, "users", &kv.Options{Codec: protobuf.Codec})
//
//snippet:import "google.golang.org/protobuf/types/known/wrapperspb"
//snippet:var log mainstem.Log
package protobuf

import (
	"errors"
	"reflect"

	"google.golang.org/protobuf/proto"

	"github.com/mainstemdev/mainstem/codec"
)

var (
	errNilMessage = errors.New("the message is nil")
	errNotProto   = errors.New("want a generated Protobuf message, such as *timestamppb.Timestamp")
)

// Codec carries generated messages in the Protobuf wire format. Decode takes
// a message, or a pointer to a message pointer, which it sets to a new message:
// so a bucket of *wrapperspb.StringValue works. Unknown fields are kept. Equal messages with
// maps may have different encodings.
var Codec codec.Codec = format{}

type format struct{}

func (format) Name() string { return "protobuf" }

func (format) Append(dst []byte, v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return dst, codec.EncodeError("protobuf", v, errNotProto)
	}
	if !m.ProtoReflect().IsValid() {
		return dst, codec.EncodeError("protobuf", v, errNilMessage)
	}
	out, err := proto.MarshalOptions{}.MarshalAppend(dst, m)
	if err != nil {
		return dst, codec.EncodeError("protobuf", v, err)
	}
	return out, nil
}

func (format) Decode(src []byte, v any) error {
	if m, ok := v.(proto.Message); ok {
		if !m.ProtoReflect().IsValid() {
			return codec.DecodeError("protobuf", v, codec.ErrTarget)
		}
		return unmarshal(src, m, v)
	}
	to := reflect.ValueOf(v)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return codec.DecodeError("protobuf", v, codec.ErrTarget)
	}
	to = to.Elem()
	zero, ok := reflect.Zero(to.Type()).Interface().(proto.Message)
	if !ok || to.Kind() != reflect.Pointer {
		return codec.DecodeError("protobuf", v, errNotProto)
	}
	m := zero.ProtoReflect().New().Interface()
	if err := unmarshal(src, m, v); err != nil {
		return err
	}
	to.Set(reflect.ValueOf(m))
	return nil
}

func unmarshal(src []byte, m proto.Message, v any) error {
	if err := proto.Unmarshal(src, m); err != nil {
		return codec.DecodeError("protobuf", v, err)
	}
	return nil
}
