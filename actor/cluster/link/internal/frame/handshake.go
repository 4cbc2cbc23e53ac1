package frame

import (
	"encoding/binary"
)

// Sizes and versions of the handshake.
const (
	PrefaceSize  = 4
	MaxHandshake = 1 << 10 // bytes of a message of the handshake after its preface
	NonceSize    = 32
	MACSize      = 32
	SessionSize  = 16

	Version    = 1 // the newest version of the protocol
	MinVersion = 1 // the oldest one that is spoken
)

// magic begins a Hello, so that a peer that speaks something else is refused at once.
const magic = "mainstem"

// Step is the type of a message of the handshake.
type Step uint8

// The steps. None has the value of the first byte of a TLS record or of a frame.
const (
	StepHello Step = 0x60 + iota
	StepChallenge
	StepProof
	StepWelcome
	StepRefusal
)

// Preface begins every message of the handshake.
type Preface struct {
	Step   Step
	Length uint16 // bytes that follow
}

// ParsePreface parses the first PrefaceSize bytes of b.
func ParsePreface(b []byte) (Preface, error) {
	if len(b) < PrefaceSize {
		return Preface{}, malformed("preface: %d bytes, want %d", len(b), PrefaceSize)
	}
	p := Preface{Step(b[0]), binary.BigEndian.Uint16(b[2:])}
	if p.Step < StepHello || p.Step > StepRefusal || b[1] != 0 || p.Length > MaxHandshake {
		return p, malformed("preface: %#x", b[:PrefaceSize])
	}
	return p, nil
}

// appendStep appends a preface and what body appends.
func appendStep(dst []byte, s Step, body func([]byte) []byte) []byte {
	at := len(dst)
	dst = body(append(dst, byte(s), 0, 0, 0))
	binary.BigEndian.PutUint16(dst[at+2:], uint16(len(dst)-at-PrefaceSize))
	return dst
}

// Hello is the dialer's first message.
type Hello struct {
	Oldest, Newest uint8           // versions of the protocol that the dialer speaks
	Start          uint64          // incarnation of the dialer
	Nonce          [NonceSize]byte // random
	Name, To       string          // names of the dialer and of the node that it calls, at most 255 bytes each
}

// Append appends the message with its preface.
func (h Hello) Append(dst []byte) []byte {
	return appendStep(dst, StepHello, func(b []byte) []byte {
		b = append(append(b, magic...), h.Oldest, h.Newest)
		b = binary.BigEndian.AppendUint64(b, h.Start)
		b = append(b, h.Nonce[:]...)
		return appendString(appendString(b, h.Name), h.To)
	})
}

// ParseHello parses what follows the preface.
func ParseHello(b []byte) (h Hello, err error) {
	p := parser{rest: b}
	if got := string(p.bytes(len(magic))); got != magic {
		return h, malformed("hello: it begins with %q", got)
	}
	h.Oldest, h.Newest = p.uint8(), p.uint8()
	h.Start = p.uint64()
	p.copy(h.Nonce[:])
	h.Name, h.To = p.string(), p.string()
	return h, p.end("hello")
}

// Challenge is the acceptor's answer to a Hello.
type Challenge struct {
	Version uint8           // of the protocol, that both will speak
	Start   uint64          // incarnation of the acceptor
	Nonce   [NonceSize]byte // random
	Name    string          // of the acceptor, at most 255 bytes
}

// Append appends the message with its preface.
func (c Challenge) Append(dst []byte) []byte {
	return appendStep(dst, StepChallenge, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint64(append(b, c.Version), c.Start)
		b = append(b, c.Nonce[:]...)
		return appendString(b, c.Name)
	})
}

// ParseChallenge parses what follows the preface.
func ParseChallenge(b []byte) (c Challenge, err error) {
	p := parser{rest: b}
	c.Version, c.Start = p.uint8(), p.uint64()
	p.copy(c.Nonce[:])
	c.Name = p.string()
	return c, p.end("challenge")
}

// Session is the random ID of a session. The zero Session stands for none.
type Session [SessionSize]byte

// Terms are the fields of Proof and Welcome about sessions. The MAC of the message covers them.
type Terms struct {
	Session     Session // of a dialer: to join, or zero to begin one; of an acceptor: that was joined
	Over        Session // of a dialer: a session with this acceptor that has ended, or zero
	Stream      uint16  // index in the session of the stream that this connection carries
	Connections uint16  // streams of a session: the sender's limit, or the number of the session
	Window      uint64  // the sender's limit of pending bytes in each direction
	MaxMessage  uint64  // bytes of the largest message that the sender takes
	Taken       uint64  // number of the last frame of this stream that the sender has received
	Advertised  string  // address at which the sender can be dialed, "" if none; at most 255 bytes
}

func (t Terms) append(b []byte) []byte {
	b = append(append(b, t.Session[:]...), t.Over[:]...)
	b = binary.BigEndian.AppendUint16(b, t.Stream)
	b = binary.BigEndian.AppendUint16(b, t.Connections)
	b = binary.BigEndian.AppendUint64(b, t.Window)
	b = binary.BigEndian.AppendUint64(b, t.MaxMessage)
	b = binary.BigEndian.AppendUint64(b, t.Taken)
	return appendString(b, t.Advertised)
}

func (t *Terms) parse(p *parser) {
	p.copy(t.Session[:])
	p.copy(t.Over[:])
	t.Stream, t.Connections = p.uint16(), p.uint16()
	t.Window, t.MaxMessage, t.Taken = p.uint64(), p.uint64(), p.uint64()
	t.Advertised = p.string()
}

// Proof is the dialer's second message: its proof, and the session that it asks for.
type Proof struct {
	MAC [MACSize]byte // see transcript.mac in package link
	Terms
}

// Append appends the message with its preface.
func (f Proof) Append(dst []byte) []byte {
	return appendStep(dst, StepProof, func(b []byte) []byte { return append(append(b, f.MAC[:]...), f.Signed()...) })
}

// Signed returns the bytes of the message that the MAC covers.
func (f Proof) Signed() []byte { return f.append(nil) }

// ParseProof parses what follows the preface.
func ParseProof(b []byte) (f Proof, err error) {
	p := parser{rest: b}
	p.copy(f.MAC[:])
	f.parse(&p)
	return f, p.end("proof")
}

// Admission is the answer of an acceptor to a dialer that has proven itself. The values cross the
// wire.
type Admission uint8

// The answers.
const (
	Joined  Admission = iota // the connection carries a stream from now on
	Unknown                  // there is no such session
	Busy                     // there is another session with the dialer, or one is being made or ending
	Stale                    // a later incarnation of the dialer has been seen
	Full                     // there are too many sessions
	Closing                  // the acceptor's endpoint is being closed
	lastAdmission
)

// String describes the answer, from the view of the dialer.
func (v Admission) String() string {
	switch v {
	case Joined:
		return "joined"
	case Unknown:
		return "it does not know the session"
	case Busy:
		return "it is connecting already"
	case Stale:
		return "it has seen a later incarnation of this node: a clock went back, or two have the same name"
	case Full:
		return "it has too many peers"
	case Closing:
		return "it is closing"
	}
	return "unknown verdict"
}

// Welcome is the acceptor's last message: its proof and its answer.
type Welcome struct {
	MAC       [MACSize]byte // see transcript.mac in package link
	Admission Admission
	Terms     // with Joined; with Busy only Session, the one that is in the way, or zero
}

// Append appends the message with its preface.
func (w Welcome) Append(dst []byte) []byte {
	return appendStep(dst, StepWelcome, func(b []byte) []byte { return append(append(b, w.MAC[:]...), w.Signed()...) })
}

// Signed returns the bytes of the message that the MAC covers.
func (w Welcome) Signed() []byte { return w.append([]byte{byte(w.Admission)}) }

// ParseWelcome parses what follows the preface.
func ParseWelcome(b []byte) (w Welcome, err error) {
	p := parser{rest: b}
	p.copy(w.MAC[:])
	w.Admission = Admission(p.uint8())
	w.parse(&p)
	if p.short || w.Admission < lastAdmission {
		return w, p.end("welcome")
	}
	return w, malformed("welcome: verdict %d", w.Admission)
}

// Refusal is the acceptor's answer to a dialer that it refuses before or because of its proof. It has
// no MAC, so the dialer must conclude nothing from it about sessions.
type Refusal struct{ Reason string } // at most 255 bytes

// Append appends the message with its preface.
func (r Refusal) Append(dst []byte) []byte {
	return appendStep(dst, StepRefusal, func(b []byte) []byte { return appendString(b, r.Reason) })
}

// ParseRefusal parses what follows the preface.
func ParseRefusal(b []byte) (r Refusal, err error) {
	p := parser{rest: b}
	r.Reason = p.string()
	return r, p.end("refusal")
}

// Farewell is the payload of a Bye frame.
type Farewell struct{ Reason string } // at most 255 bytes

// Append appends the payload.
func (f Farewell) Append(dst []byte) []byte { return appendString(dst, f.Reason) }

// ParseFarewell parses the payload.
func ParseFarewell(b []byte) (f Farewell, err error) {
	p := parser{rest: b}
	f.Reason = p.string()
	return f, p.end("farewell")
}
