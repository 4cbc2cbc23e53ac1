// Package frame encodes and decodes the link's protocol on the wire, version 1: the messages of the
// handshake, frames, and the entries of data frames. Each has a pure Append and a pure Parse
// function. All numbers are big-endian. The tables give offset, size in bytes, and field; a string
// is a byte with its length and then its bytes.
//
// # Handshake
//
// A message of the handshake begins with a [Preface], so that it can be read without reading beyond
// it:
//
//	 0      1 type: 0x60 Hello, 0x61 Challenge, 0x62 Proof, 0x63 Welcome, 0x64 Refusal
//	 1      1 0
//	 2      2 length of the message after the preface, at most MaxHandshake
//
//	dialer                               acceptor
//	  Hello      names, nonce         ->
//	             <-  name, nonce         Challenge
//	  Proof      MAC, terms           ->
//	             <-  MAC, answer, terms  Welcome
//
// Instead of Challenge or Welcome the acceptor may send a [Refusal]. The fields of a message follow
// its preface:
//
//	Hello       0   8 "mainstem"
//	            8   1 oldest version that the dialer speaks
//	            9   1 newest version that the dialer speaks
//	           10   8 incarnation of the dialer
//	           18  32 nonce
//	           50     strings: name of the dialer, name of the node that it calls
//	Challenge   0   1 version that both will speak
//	            1   8 incarnation of the acceptor
//	            9  32 nonce
//	           41     string: name of the acceptor
//	Proof       0  32 MAC, see package link
//	           32     terms
//	Welcome     0  32 MAC, see package link
//	           32   1 answer, see Admission
//	           33     terms
//	Refusal     0     string: reason
//
//	terms       0  16 session
//	           16  16 session that is over
//	           32   2 stream
//	           34   2 connections
//	           36   8 window
//	           44   8 largest message
//	           52   8 number of the last frame received
//	           60     string: advertised address
//
// # Frames
//
// After the handshake both ends send frames, which begin with a [Header]:
//
//	 0      1 type: 1 data, 2 ack, 3 bye
//	 1      1 compression of the payload: 0 none, 1 LZ4 block, 2 Zstandard frame
//	 2      2 0
//	 4      4 length of the payload as it follows
//	 8      8 number of a data frame, 0 if it has none
//	16      8 acknowledgement: number of the last frame of the other end that was handled
//	24      4 size of the payload after decompression
//	28      4 CRC-32C of bytes 0 to 27 and of the payload as it follows
//	32        payload
//
// A bye frame's payload is a string, the reason ([Farewell]). That of a data frame is a sequence of
// entries ([Entry]):
//
//	0      4 length of the body × 16 + flags
//	         1 the lane is that of the entry before in this frame, and not repeated
//	         2 the body is a part of a large message
//	         4 more parts follow; with flag 2
//	         8 the parts before are void, and no more follow; with flag 2
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
