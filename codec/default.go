package codec

import "fmt"

// Default returns the codec that views use for values of type T when they are told
// none: [Raw] for []byte and string, else [JSON]. Generated Protobuf messages have no
// default, as only programs that use them link the runtime: the error names package
// codec/protobuf.
func Default[T any]() (Codec, error) {
	var zero T
	switch any(&zero).(type) {
	case *[]byte, *string:
		return Raw, nil
	}
	if _, ok := any(zero).(interface{ ProtoMessage() }); ok {
		return nil, fmt.Errorf("%T is a Protobuf message: set Codec to protobuf.Codec of package codec/protobuf", zero)
	}
	if _, ok := any(&zero).(interface{ ProtoMessage() }); ok {
		return nil, fmt.Errorf("%T is a Protobuf message and must not be copied: use *%T", zero, zero)
	}
	return JSON, nil
}
