package session

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is the version of the protocol that this package speaks.
const Version = 1

// Protocol is the name of the protocol in the Upgrade header.
const Protocol = "mainstem-log/1"

// Path is where a server takes upgrades, below the prefix of its URL.
const Path = "/mainstem.v1/session"

// Sizes of frames and messages, in bytes.
const (
	HeaderSize   = 12
	MaxFrame     = 64 << 10
	MaxPayload   = MaxFrame - HeaderSize
	SmallMessage = 4 << 10 // a message of at most so many bytes may go first, without credit
	sizeSize     = 4       // of the size before the first of several pieces of an answer
)

// Type says what a frame is. The numbers cross the wire: add at the end only.
type Type uint8

// The types of frames.
const (
	TypeHello  Type = 1 + iota // the first in each direction: [Hello]
	TypeCall                   // begins a call: [Call] and a piece of its request
	TypeData                   // a piece of a message
	TypeError                  // ends a call without success: a status and the detail
	TypeCancel                 // the client does not want the answer any more
	TypeCredit                 // more bytes may be sent, of a call or, with call 0, of the session
	TypePing                   // asks for a Pong
	TypePong                   // a sign of life
	TypeGoAway                 // the server takes no more calls: a text for people
	TypeToken                  // the client's new token
)

// Flags say where in a message, and in an answer, a piece is.
type Flags uint8

// The flags of TypeCall and TypeData.
const (
	First Flags = 1 << iota // the first piece of a message
	Last                    // the last piece of a message
	End                     // with Last: nothing follows this message in its direction
)

// Header begins every frame.
//
//	+----------------+--------+---------+--------------------------+
//	| payload size 2 | type 1 | flags 1 | call 8                   |
//	+----------------+--------+---------+--------------------------+
//
// Numbers are big-endian. Frames that are not of a call have call 0.
type Header struct {
	Size  int // of the payload
	Type  Type
	Flags Flags
	Call  uint64
}

// ErrProtocol is the cause of the end of a connection whose other side broke the rules.
var ErrProtocol = errors.New("the other side does not follow the session protocol")

// Violation returns an error that wraps [ErrProtocol].
func Violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// AppendFrame appends a whole frame. The payload has at most [MaxPayload] bytes.
func AppendFrame(dst []byte, t Type, f Flags, call uint64, payload ...[]byte) []byte {
	at := len(dst)
	dst = appendHeader(dst, t, f, call)
	for _, p := range payload {
		dst = append(dst, p...)
	}
	return SealFrame(dst, at)
}

// BeginFrame appends a header whose size [SealFrame] sets when the payload is there.
func BeginFrame(dst []byte, t Type, f Flags, call uint64) []byte {
	return appendHeader(dst, t, f, call)
}

func appendHeader(dst []byte, t Type, f Flags, call uint64) []byte {
	dst = append(dst, 0, 0, byte(t), byte(f))
	return binary.BigEndian.AppendUint64(dst, call)
}

// SealFrame sets the size of the frame that begins at dst[at:] and ends with dst.
func SealFrame(dst []byte, at int) []byte {
	binary.BigEndian.PutUint16(dst[at:], uint16(len(dst)-at-HeaderSize)) //nolint:gosec // at most MaxPayload
	return dst
}

// ParseHeader returns the header at the front of b, which has at least [HeaderSize] bytes.
func ParseHeader(b []byte) (Header, error) {
	h := Header{
		Size: int(binary.BigEndian.Uint16(b)), Type: Type(b[2]), Flags: Flags(b[3]), Call: binary.BigEndian.Uint64(b[4:]),
	}
	if h.Size > MaxPayload {
		return h, Violation("a frame has %d bytes of payload: the limit is %d", h.Size, MaxPayload)
	}
	return h, nil
}

// Hello is what each side says first. A payload may be longer: later versions add to it.
//
//	+-----------+------------+---------------+------------------+---------+--------+
//	| version 2 | reserved 2 | call window 4 | session window 4 | calls 4 | key 16 |
//	+-----------+------------+---------------+------------------+---------+--------+
//
// A side that knows nothing of keys ends its hello before the key.
type Hello struct {
	Version uint16
	Windows Windows
	Calls   uint32 // that the sender takes at a time; 0: the sender is the client
	Keyed   bool   // there is a key
	Key     Key
}

// Key names what a server remembers of the commits of one client. The server chooses it at
// random. A client shows the key of its last session to the next; the server answers with the
// same if it remembers them still, else with another.
type Key [16]byte

// Windows are how many bytes of messages a side takes before it gives credit.
type Windows struct {
	Call    uint32 // of each call
	Session uint32 // of all calls
}

const helloSize = 16

// AppendHello appends a frame with h.
func AppendHello(dst []byte, h Hello) []byte {
	at := len(dst)
	dst = appendHeader(dst, TypeHello, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, h.Version)
	dst = append(dst, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, h.Windows.Call)
	dst = binary.BigEndian.AppendUint32(dst, h.Windows.Session)
	dst = binary.BigEndian.AppendUint32(dst, h.Calls)
	if h.Keyed {
		dst = append(dst, h.Key[:]...)
	}
	return SealFrame(dst, at)
}

// ParseHello returns the Hello in a payload.
func ParseHello(p []byte) (Hello, error) {
	if len(p) < helloSize {
		return Hello{}, Violation("a hello has %d bytes: want %d", len(p), helloSize)
	}
	h := Hello{
		Version: binary.BigEndian.Uint16(p),
		Windows: Windows{binary.BigEndian.Uint32(p[4:]), binary.BigEndian.Uint32(p[8:])},
		Calls:   binary.BigEndian.Uint32(p[12:]),
	}
	if len(p) >= helloSize+len(h.Key) {
		h.Keyed, h.Key = true, Key(p[helloSize:])
	}
	if h.Version == 0 || min(h.Windows.Call, h.Windows.Session) < SmallMessage {
		return Hello{}, Violation("a hello of version %d has windows of %d and %d bytes: want at least %d", h.Version, h.Windows.Call, h.Windows.Session, SmallMessage)
	}
	return h, nil
}

// Method is the number of a method of the log's service.
type Method uint8

// Call is what begins the payload of a frame of TypeCall. The rest is the first piece of
// the request.
//
//	+----------+---------+------------+----------------+------------+
//	| method 1 | again 1 | reserved 2 | request size 4 | timeout 8  |
//	+----------+---------+------------+----------------+------------+
type Call struct {
	Method  Method
	Again   bool   // 1: a session that was lost carried it, with this number; see [Key]
	Size    uint32 // bytes of the whole request
	Timeout uint64 // microseconds that the client waits; 0: as long as it takes
}

// CallSize is the size of a [Call] on the wire.
const CallSize = 16

// AppendCall appends c.
func AppendCall(dst []byte, c Call) []byte {
	again := byte(0)
	if c.Again {
		again = 1
	}
	dst = append(dst, byte(c.Method), again, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, c.Size)
	return binary.BigEndian.AppendUint64(dst, c.Timeout)
}

// ParseCall returns the Call at the front of a payload, and the piece behind it. Last must
// be set if that is the whole request, and only then.
func ParseCall(f Flags, p []byte) (Call, []byte, error) {
	if len(p) < CallSize {
		return Call{}, nil, Violation("a call has %d bytes: want at least %d", len(p), CallSize)
	}
	c := Call{Method(p[0]), p[1] == 1, binary.BigEndian.Uint32(p[4:]), binary.BigEndian.Uint64(p[8:])}
	piece := p[CallSize:]
	if uint64(len(piece)) > uint64(c.Size) || (f&Last != 0) != (len(piece) == int(c.Size)) {
		return Call{}, nil, Violation("a call has a request of %d bytes, of which %d came first", c.Size, len(piece))
	}
	return c, piece, nil
}

// ParseData returns how large the message is that a piece begins, and the piece. The size
// of one that does not begin a message is 0.
func ParseData(f Flags, p []byte) (size int, piece []byte, err error) {
	switch f & (First | Last) {
	case First | Last:
		return len(p), p, nil
	case First:
		if len(p) < sizeSize {
			return 0, nil, Violation("a message has no size")
		}
		n := binary.BigEndian.Uint32(p)
		p = p[sizeSize:]
		if uint64(n) <= uint64(len(p)) || n > maxMessage {
			return 0, nil, Violation("a message of %d bytes begins with %d", n, len(p))
		}
		return int(n), p, nil
	}
	return 0, p, nil
}

// maxMessage bounds messages, so that their sizes fit an int of every machine.
const maxMessage = 1<<31 - 1

// AppendCredit appends a frame that gives n bytes of credit to a call, or to the session.
func AppendCredit(dst []byte, call uint64, n int) []byte {
	at := len(dst)
	dst = appendHeader(dst, TypeCredit, 0, call)
	dst = binary.BigEndian.AppendUint32(dst, uint32(n)) //nolint:gosec // at most a window
	return SealFrame(dst, at)
}

// ParseCredit returns the bytes in a payload.
func ParseCredit(p []byte) (int64, error) {
	if len(p) != 4 {
		return 0, Violation("a credit has %d bytes: want 4", len(p))
	}
	return int64(binary.BigEndian.Uint32(p)), nil
}
