package codec_test

import (
	"fmt"

	"github.com/mainstemdev/mainstem/codec"
)

func Example() {
	type user struct {
		Name string `json:"name"`
		Page string `json:"page"`
	}
	buf, err := codec.JSON.Append(nil, user{"Ada", "/search?a=1&b=2"})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", buf)

	var u user
	if err := codec.JSON.Decode(buf, &u); err != nil {
		panic(err)
	}
	fmt.Println(u.Name)

	err = codec.JSON.Decode([]byte(`"Ada"`), &u)
	fmt.Println(err)
	// Output:
	// {"name":"Ada","page":"/search?a=1&b=2"}
	// Ada
	// json: decode *codec_test.user: json: cannot unmarshal string into Go value of type codec_test.user
}

// point is a value for the formats that carry any Go type.
type point struct {
	X, Y int
	Name string
}

// thereAndBack returns what a point becomes in a codec and back.
func thereAndBack(c codec.Codec) point {
	buf, err := c.Append(nil, point{3, 4, "p"})
	if err != nil {
		panic(err)
	}
	var p point
	if err := c.Decode(buf, &p); err != nil {
		panic(err)
	}
	return p
}

func ExampleMessagePack() {
	fmt.Printf("%+v\n", thereAndBack(codec.MessagePack))
	// Output: {X:3 Y:4 Name:p}
}

func ExampleCBOR() {
	fmt.Printf("%+v\n", thereAndBack(codec.CBOR))
	// Output: {X:3 Y:4 Name:p}
}

func ExampleGob() {
	fmt.Printf("%+v\n", thereAndBack(codec.Gob))
	// Output: {X:3 Y:4 Name:p}
}
