package mainstem_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/mainstemdev/mainstem"
)

func ExampleErrorf() {
	err := mainstem.Errorf(mainstem.KindCorrupt, "read order", "the total: %w", io.ErrUnexpectedEOF).
		At("orders", []byte("17")).
		WithHint("restore it from a backup")
	fmt.Println(err)
	fmt.Println(errors.Is(err, mainstem.ErrCorrupt), errors.Is(err, io.ErrUnexpectedEOF))
	// Output:
	// read order: space orders: key "17": corrupt: the total: unexpected EOF; restore it from a backup
	// true true
}

func ExampleRefusef() {
	err := mainstem.Refusef(mainstem.KindInvalid, "place order", "the amount is %d: want 1 or more", -3)
	fmt.Printf("%v (%v)\n", err, err.Outcome)
	// Output:
	// place order: invalid: the amount is -3: want 1 or more (not written)
}

func TestErrorfMakesALoneErrorTheCause(t *testing.T) {
	if e := mainstem.Errorf(mainstem.KindDenied, "open", "%w", io.EOF); e.Err != io.EOF {
		t.Errorf("the cause is %#v, want io.EOF itself", e.Err)
	}
	if e := mainstem.Errorf(mainstem.KindDenied, "open", "%w: %w", io.EOF, io.ErrClosedPipe); !errors.Is(e, io.EOF) || !errors.Is(e, io.ErrClosedPipe) {
		t.Errorf("%v holds not both of its causes", e)
	}
}

func TestMethodsOfErrorsReturnCopies(t *testing.T) {
	plain := mainstem.Refusef(mainstem.KindExists, "create", "it is there")
	key := []byte("key")
	full := plain.At("space", key).WithHint("take another").WithOutcome(mainstem.Unknown)
	key[0] = 'x'
	if plain.Space != "" || plain.Key != nil || plain.Hint != "" || plain.Outcome != mainstem.NotWritten {
		t.Errorf("the error changed with its copy: %+v", plain)
	}
	if full.Space != "space" || !bytes.Equal(full.Key, []byte("key")) || full.Hint != "take another" || full.Outcome != mainstem.Unknown {
		t.Errorf("the copy is %+v", full)
	}
	if full.Kind != plain.Kind || full.Op != plain.Op || full.Err != plain.Err {
		t.Errorf("the copy is %+v, want the kind, the call and the cause of %+v", full, plain)
	}
}
