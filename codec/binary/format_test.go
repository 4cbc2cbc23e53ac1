package binary_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// walker reads messages by docs/codec.md alone, without Go types, as a program in
// another language would: it shares no code with the package. It writes what it
// finds as text.
type walker struct {
	src  []byte
	text strings.Builder
}

var errWalk = errors.New("cut off, or not of this format")

// walk returns the text of a message.
func walk(src []byte) (text string, err error) {
	defer func() {
		if recover() != nil {
			err = errWalk
		}
	}()
	w := walker{src: src}
	w.message()
	if len(w.src) > 0 {
		return "", errWalk
	}
	return w.text.String(), nil
}

func (w *walker) byte() byte {
	b := w.src[0]
	w.src = w.src[1:]
	return b
}

func (w *walker) varint() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := w.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}

func (w *walker) bytes(n uint64) []byte {
	b := w.src[:n]
	w.src = w.src[n:]
	return b
}

func (w *walker) printf(format string, args ...any) { fmt.Fprintf(&w.text, format, args...) }

func (w *walker) message() {
	header := w.byte()
	switch {
	case header>>4 != 1:
		panic(errWalk)
	case header&8 != 0:
		w.printf("nil")
	default:
		w.value(header & 7)
	}
}

func (w *walker) value(kind byte) {
	switch kind {
	case 0:
		w.printf("u%d", w.varint())
	case 1:
		z := w.varint()
		n := int64(z / 2)
		if z%2 == 1 {
			n = -n - 1
		}
		w.printf("%+d", n)
	case 2:
		w.printf("f%x", w.bytes(4))
	case 3:
		w.printf("d%x", w.bytes(8))
	case 4:
		w.printf("%q", w.bytes(w.varint()))
	case 5:
		w.fields()
	case 6:
		w.container()
	case 7:
		w.typed()
	}
}

func (w *walker) fields() {
	w.printf("{")
	for last := uint64(0); ; {
		tag := w.varint()
		if tag == 0 {
			w.printf("}")
			return
		}
		if tag/8 <= last || tag/8 > 262143 {
			panic(errWalk)
		}
		last = tag / 8
		w.printf(" %d:", last)
		w.value(byte(tag % 8))
	}
}

func (w *walker) container() {
	kinds := w.byte()
	w.printf("[")
	for range w.varint() {
		w.printf(" ")
		if kinds>>4 != 15 {
			w.value(kinds >> 4)
			w.printf("=")
		}
		if kinds&8 != 0 && w.byte() == 0 {
			w.printf("nil")
			continue
		}
		w.value(kinds & 7)
	}
	w.printf("]")
}

func (w *walker) typed() {
	switch n := w.varint(); {
	case n == 0:
		w.printf("nil")
		return
	case n%2 == 1:
		w.printf("#%d ", (n-1)/2)
	default:
		w.printf("%s ", w.bytes(n/2))
	}
	w.message()
}

// The messages of the page mean what the page says.
func TestFormatOfThePage(t *testing.T) {
	for src, want := range map[string]string{
		"14026869": `"hi"`, "1e": "nil", "16f1030201d804": "[ +1 -1 +300]", "16400101610" + "0": `[ "a"=u0]`, "10ac02": "u300",
		"150c03416461114800": `{ 1:"Ada" 2:+36}`, "173d1500": "#30 {}",
	} {
		b, err := hex.DecodeString(src)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := walk(b); got != want || err != nil {
			t.Errorf("%s is %s, %v; want %s", src, got, err, want)
		}
	}
}

// Whatever the package writes is of the format of the page.
func TestFormatOfTheCode(t *testing.T) {
	r := registry(t, nil)
	for name, text := range readGolden(t) {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := walk(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := new(everything)
		fill(t, reflect.ValueOf(in).Elem(), 4)
		buf, err := r.Append(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := walk(buf); err != nil {
			t.Fatalf("%x: %v", buf, err)
		}
		if _, err := walk(buf[:len(buf)-1]); err == nil {
			t.Fatalf("%x is complete without its last byte", buf)
		}
	})
}
