package protobuf_test

import (
	"fmt"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mainstemdev/mainstem/codec/protobuf"
)

func Example() {
	buf, err := protobuf.Codec.Append(nil, wrapperspb.String("hi"))
	if err != nil {
		panic(err)
	}
	var m *wrapperspb.StringValue // Decode makes the message
	if err := protobuf.Codec.Decode(buf, &m); err != nil {
		panic(err)
	}
	fmt.Printf("%x: %s\n", buf, m.Value)
	// Output: 0a026869: hi
}
