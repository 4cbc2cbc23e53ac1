package stream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// stampSize is what a value says about itself: who sent it, and which of that
// producer's messages it is.
const stampSize = 12

// stamped values are made in place: the same memory carries one message after the
// other, so that making them costs a few bytes.
type stamped struct {
	producer uint32
	ms       []Message
	next     uint64
}

// body returns n bytes that do not compress, the same each time.
func body(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// newStamped returns what makes batches of messages of one producer. A value has
// size bytes, at least stampSize; a key of 0 bytes is nil.
func newStamped(producer, batch, key, size int) *stamped {
	s := &stamped{producer: uint32(producer), ms: make([]Message, batch)}
	for i := range s.ms {
		s.ms[i].Value = body(size)
		if key > 0 {
			s.ms[i].Key = body(key)
		}
	}
	return s
}

// batch returns the next messages. They are the same memory each time.
func (s *stamped) batch() []Message {
	for i := range s.ms {
		v := s.ms[i].Value
		binary.BigEndian.PutUint32(v, s.producer)
		binary.BigEndian.PutUint64(v[4:], s.next)
		s.next++
	}
	return s.ms
}

// verifier verifies what comes from a topic that stamped messages were sent to.
type verifier struct {
	key, body []byte
	next      map[uint32]uint64 // by producer
}

func newVerifier(key, size int) *verifier {
	v := &verifier{body: body(size)[stampSize:], next: map[uint32]uint64{}}
	if key > 0 {
		v.key = body(key)
	}
	return v
}

// number fails unless m is the next of its producer. It looks at nothing else.
func (v *verifier) number(m Message) error {
	if len(m.Value) != stampSize+len(v.body) {
		return fmt.Errorf("got a value of %d bytes, want %d", len(m.Value), stampSize+len(v.body))
	}
	producer, n := binary.BigEndian.Uint32(m.Value), binary.BigEndian.Uint64(m.Value[4:])
	if want := v.next[producer]; n != want {
		return fmt.Errorf("got message %d of producer %d, want %d", n, producer, want)
	}
	v.next[producer] = n + 1
	return nil
}

// whole fails unless m is the next of its producer, unchanged.
func (v *verifier) whole(m Message) error {
	if err := v.number(m); err != nil {
		return err
	}
	if !bytes.Equal(m.Value[stampSize:], v.body) || !bytes.Equal(m.Key, v.key) {
		return fmt.Errorf("message %x was changed", m.Value[:stampSize])
	}
	return nil
}
