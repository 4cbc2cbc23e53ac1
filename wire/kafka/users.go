package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
)

// UserSpace is the space of the users that may authenticate, with the keys that SCRAM derives
// from their passwords, not the passwords. It has no feed.
//
//	'u' and the name   credentials, see credentials.encode
//	's'                a random secret (32), from which the salts of users that do not exist
//	                   are made; written when the first client needs it
const UserSpace = "kafka.user"

// Limits of users.
const (
	MaxUser     = 255       // bytes in a user's name
	MaxPassword = 1 << 10   // bytes in a password
	secretSize  = 32        // bytes of the secret
	userKey     = byte('u') // first byte of the keys of users
)

var (
	secretKey  = []byte("s")
	userPolicy = mainstem.Policy{History: 1, NoFeed: true}
)

// User is a user that can authenticate.
type User struct {
	Name       string
	Mechanisms []string // of SCRAM, for which the user has a credential; PLAIN works with any
}

// SetUser sets the password of a user for all mechanisms, and creates the user if there
// is none of that name. On return it has the durability of the log. Clients that authenticate
// from then on need the new password; those that are connected stay connected. A name has 1 to
// [MaxUser] bytes of UTF-8, a password 1 to [MaxPassword]: anything else is Invalid.
func (s *Server) SetUser(ctx context.Context, name, password string) error {
	if err := validateUser(name); err != nil {
		return err
	}
	if password == "" || len(password) > MaxPassword || !utf8.ValidString(password) {
		return mainstem.Errorf(mainstem.KindInvalid, "kafka", "the password of user %q has %d bytes: want 1 to %d of UTF-8", name, len(password), MaxPassword)
	}
	var cs credentials
	for _, kind := range scramKinds {
		salt := make([]byte, saltSize)
		_, _ = rand.Read(salt) // it never fails
		c, err := newCredential(kind, password, salt, DefaultIterations)
		if err != nil {
			return fmt.Errorf("kafka: password of user %q: %w", name, err)
		}
		cs = append(cs, c)
	}
	return s.updateUser(ctx, name, func(credentials) (credentials, error) { return cs, nil })
}

// DeleteUser removes a user, with the durability of the log. The error is NotFound if there is
// none of that name, and Invalid if no user can have it. Clients that are connected stay
// connected.
func (s *Server) DeleteUser(ctx context.Context, name string) error {
	if err := validateUser(name); err != nil {
		return err
	}
	return s.updateUser(ctx, name, func(cs credentials) (credentials, error) {
		if len(cs) == 0 {
			return nil, mainstem.Refusef(mainstem.KindNotFound, "delete user", "no user is called %q", name)
		}
		return nil, nil
	})
}

// Users returns all users in the order of their names.
func (s *Server) Users(ctx context.Context) ([]User, error) {
	var out []User
	err := s.eachUser(ctx, func(name string, cs credentials) {
		u := User{Name: name}
		for i := range cs {
			u.Mechanisms = append(u.Mechanisms, cs[i].kind.name())
		}
		out = append(out, u)
	})
	return out, err
}

func validateUser(name string) error {
	if name == "" || len(name) > MaxUser || !utf8.ValidString(name) {
		return mainstem.Errorf(mainstem.KindInvalid, "kafka", "the user's name %.40q has %d bytes: want 1 to %d of UTF-8", name, len(name), MaxUser)
	}
	return nil
}

func keyOf(user string) []byte { return append([]byte{userKey}, user...) }

// eachUser calls f with every user in the order of their names.
func (s *Server) eachUser(ctx context.Context, f func(name string, cs credentials)) error {
	for rec, err := range s.log.Scan(ctx, UserSpace, mainstem.Range{Prefix: []byte{userKey}}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return nil // no space: there never was a user
		}
		if err != nil {
			return err
		}
		cs, err := decodeCredentials(rec.Value)
		if err != nil {
			return mainstem.Errorf(mainstem.KindCorrupt, "kafka user", "%w", err).At(UserSpace, rec.Key)
		}
		f(string(rec.Key[1:]), cs)
	}
	return nil
}

// user returns the credentials of a user and the version of their record. Both are zero if
// there is no such user. The error is Corrupt if the record cannot be decoded.
func (s *Server) user(ctx context.Context, name string) (credentials, mainstem.Version, error) {
	rec, err := s.log.Get(ctx, UserSpace, keyOf(name))
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	cs, err := decodeCredentials(rec.Value)
	if err != nil {
		return nil, 0, mainstem.Errorf(mainstem.KindCorrupt, "kafka user", "%w", err).At(UserSpace, rec.Key)
	}
	return cs, rec.Version, nil
}

// updateUser replaces the credentials of a user by those that edit returns; none deletes the
// user. The commit has the condition that the record has not changed, and the update is tried
// again after a conflict, so edit may be called several times. An error of edit is returned.
func (s *Server) updateUser(ctx context.Context, name string, edit func(credentials) (credentials, error)) error {
	for {
		had, version, err := s.user(ctx, name)
		if err != nil {
			return err
		}
		want, err := edit(had)
		if err != nil {
			return err
		}
		b := mainstem.NewBatch()
		b.Ensure(UserSpace, userPolicy)
		if version > 0 {
			b.IfVersion(UserSpace, keyOf(name), version)
		} else {
			b.IfAbsent(UserSpace, keyOf(name))
		}
		if len(want) > 0 {
			b.Put(UserSpace, keyOf(name), want.encode())
		} else {
			b.Delete(UserSpace, keyOf(name))
		}
		if _, err = s.log.Commit(ctx, b); !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
	}
}
