package binary_test

import (
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/codec/binary"
)

func TestSchema(t *testing.T) {
	r := binary.New(nil)
	for _, c := range []struct {
		value any
		want  string
	}{
		{leaf{}, "{1:int8 2:uint16 3:string}"},
		{&leaf{}, "*{1:int8 2:uint16 3:string}"},
		{tree{}, "{1:string 2:[]*^3 3:map[string]*^3}"},
		{[]map[int16][3]byte{}, "[]map[int16]bytes3"},
		{[2]any{}, "[2]any"},
		{struct {
			T time.Time
			P pair   `bin:"2"`
			F []byte `bin:"1"`
		}{}, "{1:bytes 2:marshaled 101187:time}"},
	} {
		got, err := r.Schema(c.value)
		if err != nil || got != c.want {
			t.Errorf("%T: %s, %v; want %s", c.value, got, err, c.want)
		}
	}
	if _, err := r.Schema(nil); err == nil {
		t.Error("nil has a schema")
	}
	if _, err := r.Fingerprint(make(chan int)); err == nil {
		t.Error("a channel has a fingerprint")
	}
}

// The fingerprint is that of the bytes: names and the order of fields do not count.
func TestFingerprint(t *testing.T) {
	type renamed struct {
		Text  string `bin:"3"`
		Small int8   `bin:"1"`
		More  uint16 `bin:"2"`
	}
	type widened struct {
		A int16  `bin:"1"`
		B uint16 `bin:"2"`
		S string `bin:"3"`
	}
	r := binary.New(nil)
	prints := map[string]uint64{}
	for name, v := range map[string]any{"leaf": leaf{}, "renamed": renamed{}, "widened": widened{}} {
		var err error
		if prints[name], err = r.Fingerprint(v); err != nil {
			t.Fatal(err)
		}
	}
	if prints["leaf"] != prints["renamed"] || prints["leaf"] == prints["widened"] {
		t.Errorf("%x", prints)
	}
	if want := uint64(0x87b691344275921b); prints["leaf"] != want {
		t.Errorf("%x", prints["leaf"])
	}
}
