package kafka

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"

	"github.com/xdg-go/scram"
)

// Mechanisms by which a client of a listener can prove who it is, see
// [Listener.Mechanisms]. Passwords are never stored: only what SCRAM (RFC 5802) makes
// of them.
const (
	Plain       = "PLAIN" // sends the password: only for connections with TLS
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Iterations of the hash that makes a password expensive to guess: what
// [Server.SetUser] uses, and what clients may ask for.
const (
	DefaultIterations = 4096
	MinIterations     = 4096 // RFC 7677
	MaxIterations     = 16384
)

const (
	saltSize = 24
	maxSalt  = 255
)

// scramKind is one of the two kinds of SCRAM, by its number in Kafka's protocol. The
// numbers are persisted.
type scramKind int8

const (
	scram256 scramKind = 1
	scram512 scramKind = 2
)

var scramKinds = []scramKind{scram256, scram512}

func (k scramKind) name() string {
	if k == scram256 {
		return ScramSHA256
	}
	return ScramSHA512
}

func (k scramKind) hash() func() hash.Hash {
	if k == scram256 {
		return sha256.New
	}
	return sha512.New
}

func (k scramKind) size() int {
	if k == scram256 {
		return sha256.Size
	}
	return sha512.Size
}

// credential is what is stored of a user's password for one kind of SCRAM.
type credential struct {
	kind       scramKind
	iterations int
	salt       []byte
	storedKey  []byte
	serverKey  []byte
}

// newCredential makes the credential of a password.
func newCredential(kind scramKind, password string, salt []byte, iterations int) (credential, error) {
	salted, err := pbkdf2.Key(kind.hash(), password, salt, iterations, kind.size())
	if err != nil {
		return credential{}, err
	}
	return saltedCredential(kind, salted, salt, iterations), nil
}

// saltedCredential makes the credential of a password that was salted already, as
// clients do who set passwords of users.
func saltedCredential(kind scramKind, salted, salt []byte, iterations int) credential {
	mac := func(text string) []byte {
		m := hmac.New(kind.hash(), salted)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	stored := kind.hash()()
	stored.Write(mac("Client Key"))
	return credential{
		kind: kind, iterations: iterations, salt: slices.Clone(salt),
		storedKey: stored.Sum(nil), serverKey: mac("Server Key"),
	}
}

// has says, in constant time, whether a password is the credential's.
func (c *credential) has(password string) bool {
	other, err := newCredential(c.kind, password, c.salt, c.iterations)
	return err == nil && hmac.Equal(other.storedKey, c.storedKey)
}

// scram returns the credential for a conversation.
func (c *credential) scram() scram.StoredCredentials {
	return scram.StoredCredentials{
		KeyFactors: scram.KeyFactors{Salt: string(c.salt), Iters: c.iterations},
		StoredKey:  c.storedKey,
		ServerKey:  c.serverKey,
	}
}

// pretended returns the credential of a user that does not exist: always the same
// for a name, and nobody's password fits.
func pretended(secret []byte, kind scramKind, name string) credential {
	m := hmac.New(sha256.New, secret)
	fmt.Fprintf(m, "%s %s", kind.name(), name)
	c := credential{kind: kind, iterations: DefaultIterations, salt: m.Sum(nil)[:saltSize]}
	c.storedKey, c.serverKey = make([]byte, kind.size()), make([]byte, kind.size())
	_, _ = rand.Read(c.storedKey) // it never fails
	return c
}

// credentials are all that is stored of a user.
type credentials []credential

const credentialsVersion = 1

// encode returns the value of a user's record:
//
//	version (1) = 1, then for each kind of SCRAM, in the order of their numbers:
//	kind (1)  iterations (4)  length of the salt (1)  salt  stored key  server key
//
// A key has 32 bytes for SCRAM-SHA-256 and 64 for SCRAM-SHA-512.
func (cs credentials) encode() []byte {
	out := []byte{credentialsVersion}
	for i := range cs {
		c := &cs[i]
		out = append(out, byte(c.kind))
		out = binary.BigEndian.AppendUint32(out, uint32(c.iterations))
		out = append(out, byte(len(c.salt)))
		out = append(out, c.salt...)
		out = append(out, c.storedKey...)
		out = append(out, c.serverKey...)
	}
	return out
}

var errCredentials = errors.New("not the credentials of a user")

// decodeCredentials is the inverse of encode. It keeps no reference to p.
func decodeCredentials(p []byte) (credentials, error) {
	if len(p) == 0 || p[0] != credentialsVersion {
		return nil, errCredentials
	}
	var out credentials
	for p = slices.Clone(p[1:]); len(p) > 0; {
		const head = 1 + 4 + 1
		if len(p) < head {
			return nil, errCredentials
		}
		c := credential{kind: scramKind(p[0]), iterations: int(binary.BigEndian.Uint32(p[1:]))}
		salt := int(p[5])
		ordered := len(out) == 0 || out[len(out)-1].kind < c.kind
		if !slices.Contains(scramKinds, c.kind) || !ordered || c.iterations < MinIterations || c.iterations > MaxIterations || salt == 0 {
			return nil, errCredentials
		}
		size := c.kind.size()
		if len(p) < head+salt+2*size {
			return nil, errCredentials
		}
		p = p[head:]
		c.salt, p = p[:salt:salt], p[salt:]
		c.storedKey, p = p[:size:size], p[size:]
		c.serverKey, p = p[:size:size], p[size:]
		out = append(out, c)
	}
	return out, nil
}

// of returns the credential for a kind of SCRAM, or nil.
func (cs credentials) of(kind scramKind) *credential {
	for i := range cs {
		if cs[i].kind == kind {
			return &cs[i]
		}
	}
	return nil
}

// with returns cs with one credential added or replaced.
func (cs credentials) with(c credential) credentials {
	out := append(cs.without(c.kind), c)
	slices.SortFunc(out, func(a, b credential) int { return int(a.kind) - int(b.kind) })
	return out
}

// without returns cs without the credential for a kind of SCRAM.
func (cs credentials) without(kind scramKind) credentials {
	return slices.DeleteFunc(slices.Clone(cs), func(c credential) bool { return c.kind == kind })
}
