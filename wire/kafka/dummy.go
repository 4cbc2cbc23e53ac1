package kafka

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"

	"github.com/mainstemdev/mainstem"
)

// A user that does not exist seems to have a credential, see sasl.go. Its salt and iterations
// must not be recognizable, so it has a shape that a credential of a user has: the server
// makes salts of 24 bytes, Kafka's tools make salts of letters and digits, and other clients
// choose length and iterations as they like.
//
// The shapes are those of all users when the first client authenticates, and of each credential
// that was used since. A name always gets the same of them, unless a new shape comes: then a
// few names change to it.

// shape is what a credential shows besides the random bytes of its salt.
type shape struct {
	iterations int
	salt       int // bytes of the salt; 0: in the form of Kafka's tools, see kafkaSalt
}

// defaultShape is the shape of the credentials that SetUser makes.
var defaultShape = shape{DefaultIterations, saltSize}

func (c *credential) shape() shape {
	s := shape{c.iterations, len(c.salt)}
	if n, ok := new(big.Int).SetString(string(c.salt), 36); ok && n.Sign() > 0 && n.BitLen() <= kafkaSaltBits && s.salt >= minKafkaSalt && bytes.Equal(c.salt, kafkaSalt(n)) {
		s.salt = 0
	}
	return s
}

const (
	kafkaSaltBits = 130 // random bits of a salt that Kafka's tools make
	minKafkaSalt  = 20  // bytes that such a salt has at least: it has fewer once in a billion
)

// kafkaSalt returns a salt as Kafka's tools write it: a number in base 36, mostly with 25 or 26
// digits.
func kafkaSalt(n *big.Int) []byte { return []byte(n.Text(36)) }

// dummySecret is what credentials of users that do not exist are made from, see pretended. The
// secret is that of the log.
type dummySecret struct {
	sync.Mutex
	secret []byte  // nil until it was read. It does not change afterwards
	shapes []shape // of all kinds of SCRAM. Only appended to; defaultShape is always the first
}

// saw adds the shape of a credential.
func (d *dummySecret) saw(c *credential) {
	s := c.shape()
	d.Lock()
	defer d.Unlock()
	if !slices.Contains(d.shapes, s) {
		d.shapes = append(d.shapes, s)
	}
}

// pretended returns a credential for a user that does not exist. Salt and iterations are the
// same in each call for a name, a secret and shapes, as those of a user are; the keys are
// random or zero, so no password fits.
func pretended(secret []byte, shapes []shape, kind scramKind, name string) credential {
	digest := func(format string, args ...any) []byte {
		m := hmac.New(sha256.New, secret)
		fmt.Fprintf(m, format, args...)
		return m.Sum(nil)
	}
	// The shape with the greatest digest, so that another shape changes few names.
	var of shape
	var greatest []byte
	for _, s := range shapes {
		if d := digest("shape %d %d %s %s", s.iterations, s.salt, kind.name(), name); bytes.Compare(d, greatest) > 0 {
			of, greatest = s, d
		}
	}
	salt := digest("%s %s", kind.name(), name)
	if of.salt == 0 {
		n := new(big.Int).SetBytes(salt)
		salt = kafkaSalt(n.Rsh(n, uint(8*len(salt)-kafkaSaltBits)))
	} else {
		for i := 1; len(salt) < of.salt; i++ {
			salt = append(salt, digest("%d %s %s", i, kind.name(), name)...)
		}
		salt = salt[:of.salt]
	}
	c := credential{kind: kind, iterations: of.iterations, salt: salt}
	c.storedKey, c.serverKey = make([]byte, kind.size()), make([]byte, kind.size())
	_, _ = rand.Read(c.storedKey) // it never fails
	return c
}

// pretended returns a credential for a user that does not exist. loadSecret must have succeeded
// before.
func (s *Server) pretended(kind scramKind, name string) credential {
	s.dummySecret.Lock()
	secret, shapes := s.dummySecret.secret, s.dummySecret.shapes
	s.dummySecret.Unlock()
	return pretended(secret, shapes, kind, name)
}

// loadSecret reads the secret of the log, or writes a random one if there is none, and reads the
// shapes of all credentials. It does so once, before the first client authenticates.
func (s *Server) loadSecret(ctx context.Context) error {
	s.dummySecret.Lock()
	defer s.dummySecret.Unlock()
	if s.dummySecret.secret != nil {
		return nil
	}
	shapes := []shape{defaultShape}
	err := s.eachUser(ctx, func(_ string, cs credentials) {
		for i := range cs {
			if sh := cs[i].shape(); !slices.Contains(shapes, sh) {
				shapes = append(shapes, sh)
			}
		}
	})
	if err != nil && mainstem.KindOf(err) != mainstem.KindCorrupt { // a record that cannot be decoded must not keep other users out
		return err
	}
	for {
		rec, err := s.log.Get(ctx, UserSpace, secretKey)
		if err == nil {
			s.dummySecret.secret, s.dummySecret.shapes = rec.Value, shapes
			return nil
		}
		if !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
		secret := make([]byte, secretSize)
		_, _ = rand.Read(secret) // it never fails
		b := mainstem.NewBatch()
		b.Ensure(UserSpace, userPolicy)
		b.IfAbsent(UserSpace, secretKey)
		b.Put(UserSpace, secretKey, secret)
		if _, err := s.log.Commit(ctx, b); err != nil && !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
	}
}
