package binary_test

import (
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem/codec/binary"
)

func Example() {
	type user struct {
		Name string `bin:"1"`
		Age  int    `bin:"2"`
	}
	type newerUser struct { // a field more, another order, another name
		Years int16    `bin:"2"`
		Tags  []string `bin:"3"`
		Name  string   `bin:"1"`
	}
	c := binary.New(nil)
	buf, err := c.Append(nil, &user{"Ada", 36})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%x\n", buf)

	var u newerUser
	if err := c.Decode(buf, &u); err != nil {
		panic(err)
	}
	fmt.Println(u.Name, u.Years)
	// Output:
	// 150c03416461114800
	// Ada 36
}

func ExampleOf() {
	type position struct {
		X int `bin:"1"`
		Y int `bin:"2"`
	}
	positions, err := binary.Of[position](binary.New(nil))
	if err != nil {
		panic(err) // the type has no encoding
	}
	buf, err := positions.Append(nil, &position{X: 3, Y: -1})
	if err != nil {
		panic(err)
	}
	var p position
	if err := positions.Decode(buf, &p); err != nil {
		panic(err)
	}
	fmt.Println(p)
	// Output: {3 -1}
}

func ExampleRegistry_AppendAny() {
	type ping struct {
		Seq int `bin:"1"`
	}
	var errBusy = errors.New("busy")
	r := binary.New(nil)
	if err := r.RegisterNumber(32, "ping", ping{}); err != nil {
		panic(err)
	}
	if err := r.RegisterError("busy", errBusy); err != nil {
		panic(err)
	}
	for _, message := range []any{ping{7}, "text", fmt.Errorf("later: %w", errBusy)} {
		buf, err := r.AppendAny(nil, message)
		if err != nil {
			panic(err)
		}
		received, err := r.DecodeAny(buf)
		if err != nil {
			panic(err)
		}
		switch m := received.(type) {
		case ping:
			fmt.Println("ping", m.Seq)
		case error:
			fmt.Println(m, errors.Is(m, errBusy))
		default:
			fmt.Println(m)
		}
	}
	// Output:
	// ping 7
	// text
	// later: busy true
}

func ExampleRegistry_Compatible() {
	type order struct {
		ID    string `bin:"1"`
		Total int32  `bin:"2"`
	}
	type newerOrder struct {
		ID    string  `bin:"1"`
		Total float64 `bin:"2"` // a mistake: the number 2 is taken by an integer
		Paid  bool    `bin:"3"`
	}
	older, newer := binary.New(nil), binary.New(nil)
	written, err := older.Schema(order{})
	if err != nil {
		panic(err)
	}
	fmt.Println(written)
	fmt.Println(newer.Compatible(written, newerOrder{}))
	// Output:
	// {1:string 2:int32}
	// binary: decode binary_test.newerOrder: Total: the input does not fit the type: it is written as int32, want a float64
}
