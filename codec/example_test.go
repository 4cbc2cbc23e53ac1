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

func ExampleGob() {
	type point struct{ X, Y int }
	buf, err := codec.Gob.Append(nil, point{3, 4})
	if err != nil {
		panic(err)
	}
	var p point
	if err := codec.Gob.Decode(buf, &p); err != nil {
		panic(err)
	}
	fmt.Printf("%+v\n", p)
	// Output: {X:3 Y:4}
}
