package frame_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

func nonce(b byte) (n [frame.NonceSize]byte) {
	for i := range n {
		n[i] = b + byte(i)
	}
	return n
}

var (
	session = frame.Session{0: 1, 15: 2}
	terms   = frame.Terms{
		Session: session, Over: frame.Session{3}, Stream: 4, Connections: 5,
		Window: 6, MaxMessage: 7, Taken: 8, Advertised: "host:9",
	}
	hello     = frame.Hello{Oldest: 1, Newest: 1, Start: 2, Nonce: nonce(0x10), Name: "a", To: "bc"}
	challenge = frame.Challenge{Version: 1, Start: 3, Nonce: nonce(0x50), Name: "bc"}
	proof     = frame.Proof{MAC: nonce(0x90), Terms: terms}
	welcome   = frame.Welcome{MAC: nonce(0xb0), Admission: frame.Busy, Terms: terms}
)

// TestGolden fixes every byte of the protocol.
func TestGolden(t *testing.T) {
	count := func(from byte) string { n := nonce(from); return hex.EncodeToString(n[:]) }
	id := "01" + strings.Repeat("00", 14) + "02"
	over := "03" + strings.Repeat("00", 15)
	agreed := id + over + "0004" + "0005" + "0000000000000006" + "0000000000000007" + "0000000000000008" + "06" + hex.EncodeToString([]byte("host:9"))
	two := frame.Entry{Lane: 0x01020304, Body: []byte("hey")}.Append(nil)
	again := make([]byte, frame.RepeatSize, 6)
	frame.PutEntry(again, frame.SameLane, 0, 2)
	two = append(append(two, again...), "ho"...)
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"hello", hello.Append(nil), "60000037" + hex.EncodeToString([]byte("mainstem")) + "0101" + "0000000000000002" + count(0x10) + "0161" + "026263"},
		{"challenge", challenge.Append(nil), "6100002c" + "01" + "0000000000000003" + count(0x50) + "026263"},
		{"proof", proof.Append(nil), "62000063" + count(0x90) + agreed},
		{"welcome", welcome.Append(nil), "63000064" + count(0xb0) + "02" + agreed},
		{"refusal", frame.Refusal{Reason: "no"}.Append(nil), "64000003" + "026e6f"},
		{"farewell", frame.Farewell{Reason: "so long"}.Append(nil), "07" + hex.EncodeToString([]byte("so long"))},
		{"entries", two, "00000030" + "01020304" + "686579" + "00000021" + "686f"},
		{"data", frame.Header{Type: frame.Data, Length: 17, Number: 5, Ack: 6, Size: 17}.Append(nil, two),
			"01000000" + "00000011" + "0000000000000005" + "0000000000000006" + "00000011" + "6705f627" + hex.EncodeToString(two)},
		{"ack", frame.Header{Type: frame.Ack, Ack: 1}.Append(nil, nil),
			"02000000" + "00000000" + "0000000000000000" + "0000000000000001" + "00000000" + "8e1fc85c"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// steps are the messages of the handshake, with a parser that ends where its Append began.
var steps = []struct {
	step  frame.Step
	value interface{ Append([]byte) []byte }
	parse func([]byte) (interface{ Append([]byte) []byte }, error)
}{
	{frame.StepHello, hello, func(b []byte) (interface{ Append([]byte) []byte }, error) { return frame.ParseHello(b) }},
	{frame.StepChallenge, challenge, func(b []byte) (interface{ Append([]byte) []byte }, error) { return frame.ParseChallenge(b) }},
	{frame.StepProof, proof, func(b []byte) (interface{ Append([]byte) []byte }, error) { return frame.ParseProof(b) }},
	{frame.StepWelcome, welcome, func(b []byte) (interface{ Append([]byte) []byte }, error) { return frame.ParseWelcome(b) }},
	{frame.StepRefusal, frame.Refusal{Reason: "no"}, func(b []byte) (interface{ Append([]byte) []byte }, error) { return frame.ParseRefusal(b) }},
}

func TestHandshakeMessages(t *testing.T) {
	for _, s := range steps {
		whole := s.value.Append(nil)
		p, err := frame.ParsePreface(whole)
		if err != nil || p.Step != s.step || int(p.Length) != len(whole)-frame.PrefaceSize {
			t.Errorf("%T: %+v, %v", s.value, p, err)
		}
		body := whole[frame.PrefaceSize:]
		back, err := s.parse(body)
		if err != nil || !cmp.Equal(back, s.value) {
			t.Errorf("%T: %v\n%s", s.value, err, cmp.Diff(s.value, back))
		}
		for n := range body {
			if _, err := s.parse(body[:n]); !errors.Is(err, frame.ErrMalformed) {
				t.Errorf("%T, the first %d bytes: %v", s.value, n, err)
			}
		}
		if _, err := s.parse(append(bytes.Clone(body), 0)); !errors.Is(err, frame.ErrMalformed) {
			t.Errorf("%T with a byte more: %v", s.value, err)
		}
	}
}

func TestLongNamesFit(t *testing.T) {
	name := strings.Repeat("n", 255)
	h := hello
	h.Name, h.To = name, name
	if p, err := frame.ParsePreface(h.Append(nil)); err != nil {
		t.Errorf("%+v, %v", p, err)
	}
	w := welcome
	w.Advertised = name
	if p, err := frame.ParsePreface(w.Append(nil)); err != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestEveryBitIsChecked(t *testing.T) {
	payload := frame.Entry{Lane: 9, Body: []byte("body")}.Append(nil)
	whole := frame.Header{Type: frame.Data, Length: 12, Size: 12, Number: 1}.Append(nil, payload)
	for i := range 8 * len(whole) {
		bad := bytes.Clone(whole)
		bad[i/8] ^= 1 << (i % 8)
		h, err := frame.ParseHeader(bad)
		if err == nil && int(h.Length) == len(payload) && h.Check(bad) {
			t.Errorf("bit %d can be flipped", i)
		}
	}
}

func FuzzHandshake(f *testing.F) {
	for i, s := range steps {
		f.Add(uint8(i), s.value.Append(nil)[frame.PrefaceSize:])
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		s := steps[int(which)%len(steps)]
		v, err := s.parse(b)
		if err != nil {
			if !errors.Is(err, frame.ErrMalformed) {
				t.Fatalf("%v is not ErrMalformed", err)
			}
			return
		}
		if again := v.Append(nil)[frame.PrefaceSize:]; !bytes.Equal(again, b) {
			t.Fatalf("%x was parsed, and is written as %x", b, again)
		}
	})
}

func FuzzPreface(f *testing.F) {
	f.Add(hello.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := frame.ParsePreface(b); err == nil && (p.Length > frame.MaxHandshake || byte(p.Step) != b[0]) {
			t.Fatalf("%+v", p)
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add(frame.Header{Type: frame.Data, Length: 1, Size: 1, Number: 1}.Append(nil, []byte{1}))
	f.Add(frame.Header{Type: frame.Data, Compression: 2, Length: 1, Size: 100}.Append(nil, []byte{1}))
	f.Add(frame.Header{Type: frame.Ack, Ack: 8}.Append(nil, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := frame.ParseHeader(b)
		if err != nil {
			return
		}
		if h.Length > frame.MaxPayload || h.Size > frame.MaxPayload {
			t.Fatalf("a payload without a limit: %+v", h)
		}
		again := make([]byte, frame.HeaderSize)
		h.Put(again)
		if !bytes.Equal(again[:28], b[:28]) {
			t.Fatalf("%x was parsed, and is written as %x", b[:28], again[:28])
		}
		if size := frame.HeaderSize + int(h.Length); len(b) >= size {
			h.Check(b[:size])
		}
	})
}

func FuzzEntries(f *testing.F) {
	f.Add(frame.Entry{Lane: 1, Body: []byte("hey")}.Append(nil))
	f.Add(frame.Entry{Lane: 1, Flags: frame.Part | frame.More, Body: []byte("hey")}.Append(nil))
	f.Add([]byte{0, 0, 0, 0x10, 0, 0, 0, 1, 'x', 0, 0, 0, 0x11, 'y'})
	f.Fuzz(func(t *testing.T, b []byte) {
		entries := frame.ParseEntries(b)
		used := 0
		for {
			e, ok := entries.Next()
			if !ok {
				break
			}
			used += len(e.Body) + frame.RepeatSize
			if e.Flags&frame.SameLane == 0 {
				used += frame.EntrySize - frame.RepeatSize
			}
		}
		if err := entries.Err(); err == nil && used != len(b) || used > len(b) {
			t.Fatalf("%d of %d bytes were parsed: %v", used, len(b), err)
		}
	})
}

func FuzzFarewell(f *testing.F) {
	f.Add(frame.Farewell{Reason: "bye"}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := frame.ParseFarewell(b); err == nil && !bytes.Equal(v.Append(nil), b) {
			t.Fatalf("%x", b)
		}
	})
}
