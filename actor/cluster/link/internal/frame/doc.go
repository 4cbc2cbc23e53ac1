// Package frame is the link's protocol on the wire, version 1: what bytes a message
// of the handshake and a frame consist of, and nothing else. Every structure has a
// pure Append and a pure Parse. All numbers are big-endian.
//
// # Handshake
//
// Messages of the handshake begin with their length and type ([Preface]), so that one is read
// without reading beyond it:
//
//	 0      1 type
//	 1      1 0
//	 2      2 length of what follows, at most MaxHandshake
//
//	dialer                              acceptor
//	  Hello      names, nonce        ->
//	             <-  who, nonce         Challenge
//	  Proof      MAC, what it wants  ->
//	             <-  MAC, what it gets  Welcome
//
// Instead of Challenge or Welcome the acceptor may send a [Refusal].
//
// # Frames
//
// From then on both send frames, which begin with a [Header]:
//
//	 0      1 type: 1 data, 2 ack, 3 bye
//	 1      1 compression of the payload: 0 none, 1 LZ4 block, 2 Zstandard frame
//	 2      2 0
//	 4      4 length of the payload as it follows
//	 8      8 number of a data frame, 0 if it has none
//	16      8 acknowledged: number of the last frame of the other end that has been handled
//	24      4 size of the payload after decompression
//	28      4 CRC-32C of all of the above and of the payload as it follows
//	32        payload
//
// The payload of a data frame is a sequence of entries ([Entry]):
//
//	0      4 length of the body × 16 + flags
//	         1 the lane is that of the entry before in this frame, and not repeated
//	         2 the body is a part of a large message
//	         4 more parts follow
//	         8 the parts before are void: no more follow
//	4      4 lane, unless flag 1 is set
//	         body
package frame

import (
	"errors"
	"fmt"
)

// ErrMalformed is matched by every error of this package.
var ErrMalformed = errors.New("malformed")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w "+format, append([]any{ErrMalformed}, args...)...)
}
