package syslog

import (
	"bytes"
	"fmt"
)

// A web page can make a browser connect to any port of its machine and send an HTTP
// request, whose lines would be taken for messages: also those of a body that the page
// has written. So a stream is refused by its first line.

// handshake is the first byte of a TLS connection.
const handshake = 0x16

// foreign returns an [ErrFraming] if the first message of a stream shows that its sender
// speaks HTTP. counted says that it had a length before it, which an HTTP method of digits
// looks like; cut, that only its beginning is there.
func foreign(message []byte, counted, cut bool) error {
	line := message
	if i := bytes.IndexAny(line, "\r\n"); i >= 0 {
		line, cut = line[:i], false
	}
	words := bytes.SplitN(line, []byte(" "), 4)
	if !counted {
		if len(words) < 2 || !isToken(words[0]) {
			return nil
		}
		words = words[1:]
	}
	target := words[0]
	if !bytes.HasPrefix(target, []byte("/")) && !bytes.Equal(target, []byte("*")) && !bytes.Contains(target, []byte(":")) {
		return nil
	}
	if whole := len(words) == 2 && bytes.HasPrefix(words[1], []byte("HTTP/")); whole || cut && len(words) == 1 {
		return fmt.Errorf("%w: it begins as an HTTP request", ErrFraming)
	}
	return nil
}

// isToken reports whether s can be the method of an HTTP request.
func isToken(s []byte) bool {
	for _, c := range s {
		if c <= ' ' || c >= 0x7f || bytes.IndexByte([]byte(`"(),/:;<=>?@[\]{}`), c) >= 0 {
			return false
		}
	}
	return len(s) > 0
}
