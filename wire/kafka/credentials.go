package kafka

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"hash"
	"slices"

	"github.com/xdg-go/scram"
)

// SASL mechanisms by which a client of a listener can authenticate, see
// [Listener.Mechanisms]. All use the same users. Passwords are not stored: only the keys that
// SCRAM (RFC 5802) derives from them.
const (
	Plain       = "PLAIN" // RFC 4616. The client sends the password: use it only with TLS
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Iterations of PBKDF2, which make a password expensive to guess: [Server.SetUser] uses the
// default; clients that set passwords may choose from the minimum to the maximum.
const (
	DefaultIterations = 4096
	MinIterations     = 4096 // RFC 7677
	MaxIterations     = 16384
)

const (
	saltSize = 24  // bytes of a salt made by the server
	maxSalt  = 255 // bytes of a salt given by a client: its length is stored in one byte
)

// scramKind is one of the two kinds of SCRAM, by its number in Kafka's protocol (KIP-554).
// The numbers are stored.
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

// credential is the information about a user's password for one kind of SCRAM, with the
// names of RFC 5802. It is not changed once made.
type credential struct {
	kind       scramKind
	iterations int    // MinIterations to MaxIterations
	salt       []byte // 1 to maxSalt bytes
	storedKey  []byte // H(HMAC(salted password, "Client Key")), of kind.size bytes
	serverKey  []byte // HMAC(salted password, "Server Key"), of kind.size bytes
}

// newCredential makes the credential of a password. It takes as long as the iterations do,
// some milliseconds.
func newCredential(kind scramKind, password string, salt []byte, iterations int) (credential, error) {
	salted, err := pbkdf2.Key(kind.hash(), password, salt, iterations, kind.size())
	if err != nil {
		return credential{}, err
	}
	return saltedCredential(kind, salted, salt, iterations), nil
}

// saltedCredential makes the credential of a salted password: the result of PBKDF2, which
// clients send that set the passwords of users. It copies salt.
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

// has returns whether a password is the credential's. It hashes the password and compares the
// keys in constant time.
func (c *credential) has(password string) bool {
	other, err := newCredential(c.kind, password, c.salt, c.iterations)
	return err == nil && hmac.Equal(other.storedKey, c.storedKey)
}

// scram returns the credential in the form of package scram.
func (c *credential) scram() scram.StoredCredentials {
	return scram.StoredCredentials{
		KeyFactors: scram.KeyFactors{Salt: string(c.salt), Iters: c.iterations},
		StoredKey:  c.storedKey,
		ServerKey:  c.serverKey,
	}
}

// credentials are all credentials of a user, in the order of their kinds, each kind at most
// once. Methods do not change the slice. Empty means that the user does not exist.
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

// decodeCredentials is the inverse of encode. It keeps no reference to p. The error is
// errCredentials if p is not a value that encode makes.
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
