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

// On a listener with mechanisms a connection begins locked. It authenticates in these steps:
//
//	           SaslHandshake v1            SaslAuthenticate, 1 (PLAIN) or 2 (SCRAM)
//	locked  ─────────────────────▶ chosen ───────────────────────────────────────▶ done
//	        SaslHandshake v0: raw          frames of the mechanism alone
//
// Before it is done, only ApiVersions and these requests are served, and after a handshake of
// version 0 only the frames. A mistake in the exchange closes the connection after its
// answer. The client must be done within Options.AuthTimeout of the accept, and stays
// authenticated until the connection ends: the session lifetime of KIP-368 is 0, no limit.
//
// An answer must not reveal whether a user exists. So for a user that does not exist the same
// steps run with a credential made by pretended: iterations and a salt that are always the same
// for the name and look like those of users, and keys that no password has. The error is
// errNotAuthenticated in both cases.

// mechanisms are the SASL mechanisms that a listener can have.
var mechanisms = []string{Plain, ScramSHA256, ScramSHA512}

// auth is the state of authentication of a connection. It belongs to the goroutine of the
// connection.
type auth struct {
	until     time.Time     // deadline for all reads before it is done; zero: none
	mechanism string        // chosen in the handshake; "" before
	raw       bool          // the next frames are messages of the mechanism, without Kafka's header
	scram     *conversation // nil before the first message, and for PLAIN
	done      bool
}

// locked returns whether the client must still authenticate.
func (c *conn) locked() bool { return len(c.as.Mechanisms) > 0 && !c.auth.done }

// beforehand are the APIs that are served before a client has authenticated.
var beforehand = []kmsg.Key{kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate}

var (
	errLocked = errors.New("the client has to authenticate first")
	// errNotAuthenticated is the same for every mistake, for users that exist and users that
	// do not.
	errNotAuthenticated = errors.New("authentication failed: wrong user or password")
)

// admit returns nil if a request of an API may be served now, else errLocked.
func (c *conn) admit(key kmsg.Key) error {
	if c.locked() && !slices.Contains(beforehand, key) {
		return errLocked
	}
	return nil
}

// token handles the next message of the client in the mechanism chosen, and returns the
// answer to it. The last message sets c.auth.done. An error is errNotAuthenticated, or an error
// of the log or of ctx; it ends the authentication.
func (c *conn) token(ctx context.Context, message []byte) ([]byte, error) {
	if c.auth.mechanism == Plain {
		return nil, c.plainToken(ctx, message)
	}
	if c.auth.scram == nil {
		if err := c.s.loadSecret(ctx); err != nil {
			return nil, err
		}
		c.auth.scram = c.s.converse(ctx, c.auth.mechanism)
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

// authenticated unlocks the connection for a user.
func (c *conn) authenticated(name string) {
	mechanism := c.auth.mechanism
	c.auth = auth{done: true}
	c.identified(mechanism, name)
}

// identified sets the principal of the client, in the form of Kafka's KafkaPrincipal, and logs
// it with the mechanism by which it is known.
func (c *conn) identified(by, name string) {
	c.client.Principal = "User:" + name
	c.s.o.Logger.LogAttrs(c.ctx, slog.LevelDebug, "kafka client identified",
		slog.Any("client", c.nc.RemoteAddr()), slog.String("principal", c.client.Principal), slog.String("by", by))
}

// hashing is a semaphore for the passwords that are hashed at a time in PLAIN, by all servers
// of the process, so that clients without a password cannot take all processors.
var hashing = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// plainToken handles the only message of PLAIN (RFC 4616):
//
//	authorization ID, or nothing  0 (1)  user  0 (1)  password
//
// The authorization ID must be empty or the user.
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
	if err := c.s.loadSecret(ctx); err != nil {
		return err
	}
	made := c.s.pretended(scram512, name)
	use := &made
	for i := range cs {
		use = &cs[i] // in the end the strongest: they are in the order of their kinds
		c.s.dummySecret.saw(use)
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

// conversation is one exchange of SCRAM (RFC 5802).
type conversation struct {
	*scram.ServerConversation
	name  string // the user that the first message names
	known bool   // the user exists and has a credential of the kind
	err   error  // of the log, while the user was looked up
}

// converse begins a conversation for a mechanism. If the user does not exist or has no
// credential of its kind, the conversation runs to its end with a made-up one, and fails.
// loadSecret must have succeeded before.
func (s *Server) converse(ctx context.Context, mechanism string) *conversation {
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
			s.dummySecret.saw(c)
			return c.scram(), nil
		}
		made := s.pretended(kind, name)
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

// step handles a message of the client and returns the answer. done means that the client has
// proved to be the user v.name. A client that acts for another user is refused.
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
