package cbor_test

import (
	"fmt"

	"github.com/mainstemdev/mainstem/codec/cbor"
)

func Example() {
	type point struct {
		X, Y int
		Name string
	}
	buf, err := cbor.Codec.Append(nil, point{3, 4, "p"})
	if err != nil {
		panic(err)
	}
	var p point
	if err := cbor.Codec.Decode(buf, &p); err != nil {
		panic(err)
	}
	fmt.Printf("%d bytes: %+v\n", len(buf), p)
	// Output: 14 bytes: {X:3 Y:4 Name:p}
}
