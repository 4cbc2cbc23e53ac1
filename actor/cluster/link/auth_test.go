package link

import (
	"bytes"
	"testing"
)

// TestProofsAreForOneUse: a proof is good for one role, in one handshake, over one
// connection, with one secret, about what it signs.
func TestProofsAreForOneUse(t *testing.T) {
	type situation struct {
		secret, seen, signed string
		binding              []byte
		role                 role
	}
	prove := func(s situation) [32]byte {
		key, err := deriveKey([]byte(s.secret))
		if err != nil {
			t.Fatal(err)
		}
		seen, err := newTranscript(key, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen.binding = s.binding
		seen.Write([]byte(s.seen))
		m := seen.mac(s.role, []byte(s.signed))
		if !seen.proven(s.role, []byte(s.signed), m) {
			t.Error("a proof is not believed")
		}
		return m
	}
	good := situation{"the secret", "hello, nonce, challenge, nonce", "join session 1", bytes.Repeat([]byte{1}, 32), dialer}
	for name, change := range map[string]func(*situation){
		"role":          func(s *situation) { s.role = acceptor },
		"secret":        func(s *situation) { s.secret = "no secret" },
		"no secret":     func(s *situation) { s.secret = "" },
		"nonce":         func(s *situation) { s.seen = "hello, nonce, challenge, other" },
		"connection":    func(s *situation) { s.binding = bytes.Repeat([]byte{2}, 32) },
		"no connection": func(s *situation) { s.binding = nil },
		"terms":         func(s *situation) { s.signed = "join session 2" },
	} {
		other := good
		change(&other)
		if prove(good) == prove(other) {
			t.Errorf("a proof does not depend on the %s", name)
		}
	}
}
