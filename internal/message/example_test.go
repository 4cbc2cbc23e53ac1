package message_test

import (
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
)

// Many records go into one message, and the memory of a message is used again.
func ExampleRecords() {
	var m message.Records
	for i := range 3 {
		m.Add(mainstem.Record{Space: "s", Key: []byte("k"), Version: mainstem.Version(i + 1), Count: 1})
	}
	for _, r := range m.Message().Records {
		fmt.Printf("%q %d\n", r.Space, r.Version)
	}
	// Output:
	// "s" 1
	// "" 2
	// "" 3
}

// An error of the contract crosses the wire whole.
func ExampleEncodeError() {
	sent := message.EncodeError(&mainstem.Error{
		Kind: mainstem.KindConflict, Op: "commit", Space: "s", Key: []byte("k"), Outcome: mainstem.NotWritten,
		Want: mainstem.Condition{Test: mainstem.TestAbsent}, Got: 3, GotLive: true,
	}, mainstem.NoOutcome)
	fmt.Println(sent.Code())
	arrived := message.DecodeError(sent)
	fmt.Println(arrived, errors.Is(arrived, mainstem.ErrConflict), arrived.Got)
	// Output:
	// aborted
	// commit: space s: key "k": conflict: want absent, got version 3 true 3
}
