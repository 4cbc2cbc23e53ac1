package kafka

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"
)

// mechanisms are all that a listener can ask for.
var mechanisms = []string{Plain, ScramSHA256, ScramSHA512}

// auth is how far a connection is with authenticating.
type auth struct {
	until     time.Time // it must be done by then; zero: no limit
	mechanism string    // chosen in the handshake
	raw       bool      // the frames that follow are the mechanism's, without Kafka's headers
	scram     *conversation
	done      bool
}

// locked says whether the connection has yet to authenticate.
func (c *conn) locked() bool { return len(c.as.Mechanisms) > 0 && !c.auth.done }

// beforehand are the requests that are served before a client has authenticated.
var beforehand = []kmsg.Key{kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate}

var (
	errLocked = errors.New("the client has to authenticate first")
	// errNotAuthenticated is the same for whatever was wrong, and so for users that
	// there are and users that there are not.
	errNotAuthenticated = errors.New("authentication failed: wrong user or password")
)

// admit returns nil if a request may be served now.
func (c *conn) admit(key kmsg.Key) error {
	if c.locked() && !slices.Contains(beforehand, key) {
		return errLocked
	}
	return nil
}

// token takes the next message of the client in the mechanism chosen and returns the
// answer. It ends with an error, or with c.auth.done.
func (c *conn) token(ctx context.Context, message []byte) ([]byte, error) {
	if c.auth.mechanism == Plain {
		return nil, c.plainToken(ctx, message)
	}
	if c.auth.scram == nil {
		secret, err := c.s.secret(ctx)
		if err != nil {
			return nil, err
		}
		c.auth.scram = c.s.converse(ctx, c.auth.mechanism, secret)
	}
	answer, done, err := c.auth.scram.step(string(message))
	if err != nil {
		return nil, err
	}
	if done {
		c.authenticated(c.auth.scram.name)
	}
	return []byte(answer), nil
}

// authenticated ends the authentication of a user.
func (c *conn) authenticated(name string) {
	mechanism := c.auth.mechanism
	c.auth = auth{done: true}
	c.identified(mechanism, name)
}

// identified notes who the client is, and how that is known. Kafka names users so.
func (c *conn) identified(by, name string) {
	c.client.Principal = "User:" + name
	c.s.o.Logger.LogAttrs(c.ctx, slog.LevelDebug, "kafka client identified",
		slog.Any("client", c.nc.RemoteAddr()), slog.String("principal", c.client.Principal), slog.String("by", by))
}

// hashing bounds how many passwords are hashed at a time, by all servers of the
// process: who does not know a password must not take all of the CPU.
var hashing = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// plainToken takes the only message of PLAIN (RFC 4616): the user to act for, who the
// client is, and its password, with zeros between.
func (c *conn) plainToken(ctx context.Context, message []byte) error {
	parts := bytes.Split(message, []byte{0})
	if len(parts) != 3 || len(parts[2]) > MaxPassword {
		return errNotAuthenticated
	}
	actFor, name, password := string(parts[0]), string(parts[1]), string(parts[2])
	if validateUser(name) != nil || actFor != "" && actFor != name {
		return errNotAuthenticated
	}
	cs, _, err := c.s.user(ctx, name)
	if err != nil {
		return err
	}
	secret, err := c.s.secret(ctx)
	if err != nil {
		return err
	}
	made := pretended(secret, scram512, name)
	use := &made
	for i := range cs {
		use = &cs[i] // the strongest that there is
	}
	select {
	case hashing <- struct{}{}:
		defer func() { <-hashing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if !use.has(password) || len(cs) == 0 {
		return errNotAuthenticated
	}
	c.authenticated(name)
	return nil
}

// conversation is one run of SCRAM.
type conversation struct {
	*scram.ServerConversation
	name  string
	known bool  // there is such a user
	err   error // what the log could not do
}

// converse begins a conversation. A user that does not exist, or has no credential of
// this kind, is led to its end like any other.
func (s *Server) converse(ctx context.Context, mechanism string, secret []byte) *conversation {
	kind, generator := scram256, scram.SHA256
	if mechanism == ScramSHA512 {
		kind, generator = scram512, scram.SHA512
	}
	out := &conversation{}
	lookup := func(name string) (scram.StoredCredentials, error) {
		out.name = name
		var cs credentials
		if validateUser(name) == nil {
			if cs, _, out.err = s.user(ctx, name); out.err != nil {
				return scram.StoredCredentials{}, out.err
			}
		}
		if c := cs.of(kind); c != nil {
			out.known = true
			return c.scram(), nil
		}
		made := pretended(secret, kind, name)
		return made.scram(), nil
	}
	server, err := generator.NewServer(lookup)
	if err != nil { // it never fails
		out.err = err
		return out
	}
	out.ServerConversation = server.NewConversation()
	return out
}

// step takes a message of the client. done means that the client is who it says.
func (v *conversation) step(message string) (answer string, done bool, err error) {
	if v.err == nil {
		answer, err = v.Step(message)
	}
	switch {
	case v.err != nil:
		return "", false, v.err
	case err != nil || v.AuthzID() != "" && v.AuthzID() != v.name:
		return "", false, errNotAuthenticated
	case !v.Done():
		return answer, false, nil
	case !v.Valid() || !v.known:
		return "", false, errNotAuthenticated
	}
	return answer, true, nil
}
