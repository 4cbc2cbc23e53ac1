package kafka_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

var allMechanisms = []string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512}

// locked starts a server whose clients must authenticate, and which has one user.
func locked(t *testing.T, mechanisms ...string) *broker {
	t.Helper()
	b := start(t, nil, &kafka.Listener{Mechanisms: mechanisms})
	if err := b.SetUser(t.Context(), "alice", "wonder land"); err != nil {
		t.Fatal(err)
	}
	return b
}

func as(mechanism, user, password string) sasl.Mechanism {
	switch mechanism {
	case kafka.ScramSHA256:
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case kafka.ScramSHA512:
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
	return plain.Auth{User: user, Pass: password}.AsMechanism()
}

// login tries to reach the server as a user.
func login(t *testing.T, b *broker, m sasl.Mechanism) error {
	t.Helper()
	cl := b.client(t, kgo.SASL(m), kgo.RequestRetries(0), kgo.RetryTimeout(5*time.Second))
	_, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), cl)
	return err
}

func TestClientsAuthenticate(t *testing.T) {
	b := locked(t, allMechanisms...)
	for _, mechanism := range allMechanisms {
		if err := login(t, b, as(mechanism, "alice", "wonder land")); err != nil {
			t.Errorf("%s: %v", mechanism, err)
		}
		wrong := login(t, b, as(mechanism, "alice", "wonderland"))
		unknown := login(t, b, as(mechanism, "bob", "wonder land"))
		for _, err := range []error{wrong, unknown} {
			if err == nil || !strings.Contains(err.Error(), "SASL_AUTHENTICATION_FAILED") {
				t.Errorf("%s: %v", mechanism, err)
			}
		}
	}
}

func TestProduceAndConsumeAuthenticated(t *testing.T) {
	b := locked(t, kafka.ScramSHA512)
	b.topic(t, "t", 1)
	cl := b.client(t, kgo.SASL(as(kafka.ScramSHA512, "alice", "wonder land")), kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"),
		kgo.DisableIdempotentWrite(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := records(t, cl, 1); string(got[0].Value) != "v" {
		t.Errorf("%q", got[0].Value)
	}
}

func handshake(mechanism string) *kmsg.SASLHandshakeRequest {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Mechanism = mechanism
	return req
}

func authenticate(token string) *kmsg.SASLAuthenticateRequest {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.SASLAuthBytes = []byte(token)
	return req
}

func TestNothingIsServedBeforeAuthentication(t *testing.T) {
	b := locked(t, kafka.Plain)
	for _, req := range []kmsg.Request{kmsg.NewPtrMetadataRequest(), kmsg.NewPtrAlterUserSCRAMCredentialsRequest(), kmsg.NewPtrFetchRequest(), kmsg.NewPtrFindCoordinatorRequest()} {
		c := b.raw(t)
		c.send(req, min(req.MaxVersion(), 4))
		c.closed()
		c = b.raw(t) // nor between handshake and authentication
		ask[*kmsg.SASLHandshakeResponse](c, handshake(kafka.Plain), 1)
		c.send(req, min(req.MaxVersion(), 4))
		c.closed()
	}
	if resp := ask[*kmsg.ApiVersionsResponse](b.raw(t), apiVersions(), 3); resp.ErrorCode != 0 {
		t.Errorf("ApiVersions: code %d", resp.ErrorCode)
	}
}

func TestHandshake(t *testing.T) {
	b := locked(t, kafka.ScramSHA256, kafka.Plain)
	for v := range int16(2) {
		c := b.raw(t)
		resp := ask[*kmsg.SASLHandshakeResponse](c, handshake("GSSAPI"), v)
		coded(t, resp.ErrorCode, nil, kerr.UnsupportedSaslMechanism)
		if diff := cmp.Diff([]string{kafka.ScramSHA256, kafka.Plain}, resp.SupportedMechanisms); diff != "" {
			t.Error(diff)
		}
		c.closed()
	}
	c := b.raw(t)
	resp := ask[*kmsg.SASLHandshakeResponse](c, handshake(kafka.Plain), 1)
	coded(t, resp.ErrorCode, nil, nil)
	again := ask[*kmsg.SASLHandshakeResponse](c, handshake(kafka.Plain), 1)
	coded(t, again.ErrorCode, nil, kerr.IllegalSaslState)
	c.closed()

	c = b.raw(t)
	early := ask[*kmsg.SASLAuthenticateResponse](c, authenticate("\x00alice\x00wonder land"), 2)
	coded(t, early.ErrorCode, early.ErrorMessage, kerr.IllegalSaslState)
	c.closed()

	open := start(t, nil, nil).raw(t)
	coded(t, ask[*kmsg.SASLHandshakeResponse](open, handshake(kafka.Plain), 1).ErrorCode, nil, kerr.IllegalSaslState)
	late := ask[*kmsg.SASLAuthenticateResponse](open, authenticate("x"), 1)
	coded(t, late.ErrorCode, late.ErrorMessage, kerr.IllegalSaslState)
	ask[*kmsg.MetadataResponse](open, kmsg.NewPtrMetadataRequest(), 4) // the connection goes on
}

func TestPlainMessages(t *testing.T) {
	b := locked(t, kafka.Plain)
	for token, ok := range map[string]bool{
		"\x00alice\x00wonder land":      true,
		"alice\x00alice\x00wonder land": true,
		"bob\x00alice\x00wonder land":   false,
		"\x00alice\x00":                 false,
		"\x00\x00":                      false,
		"":                              false,
		"alice":                         false,
		"\x00alice\x00wonder land\x00":  false,
		"\x00alice\x00" + strings.Repeat("x", 2000): false,
		"\x00" + strings.Repeat("x", 300) + "\x00p": false,
		"\x00\xff\x00p": false,
	} {
		for v := range int16(3) {
			c := b.raw(t)
			ask[*kmsg.SASLHandshakeResponse](c, handshake(kafka.Plain), 1)
			resp := ask[*kmsg.SASLAuthenticateResponse](c, authenticate(token), v)
			if !ok {
				coded(t, resp.ErrorCode, resp.ErrorMessage, kerr.SaslAuthenticationFailed, "wrong user or password")
				c.closed()
				continue
			}
			coded(t, resp.ErrorCode, resp.ErrorMessage, nil)
			if resp.SessionLifetimeMillis != 0 {
				t.Errorf("a session of %d ms", resp.SessionLifetimeMillis)
			}
			ask[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 4)
		}
	}
}

// Users that do not exist are asked for a proof like any other, always with the same
// salt.
func TestUnknownUsersLookLikeOthers(t *testing.T) {
	b := locked(t, kafka.ScramSHA256, kafka.ScramSHA512)
	challenge := func(mechanism, user string) string {
		c := b.raw(t)
		ask[*kmsg.SASLHandshakeResponse](c, handshake(mechanism), 1)
		resp := ask[*kmsg.SASLAuthenticateResponse](c, authenticate("n,,n="+user+",r=nonce"), 2)
		coded(t, resp.ErrorCode, resp.ErrorMessage, nil)
		parts := strings.SplitN(string(resp.SASLAuthBytes), ",", 2) // the nonce differs
		if len(parts) != 2 || !strings.HasPrefix(parts[0], "r=nonce") {
			t.Fatalf("%s", resp.SASLAuthBytes)
		}
		return parts[1]
	}
	for _, mechanism := range []string{kafka.ScramSHA256, kafka.ScramSHA512} {
		real, made := challenge(mechanism, "alice"), challenge(mechanism, "bob")
		if len(real) != len(made) || real[strings.Index(real, "i="):] != made[strings.Index(made, "i="):] {
			t.Errorf("%s: %q and %q", mechanism, real, made)
		}
		if made != challenge(mechanism, "bob") {
			t.Error("the salt of an unknown user changes")
		}
		if made == challenge(mechanism, "carol") {
			t.Error("all unknown users have the same salt")
		}
	}
}

// After the handshake of version 0 the messages are frames by themselves.
func TestRawMessages(t *testing.T) {
	b := locked(t, kafka.Plain)
	send := func(c *raw, message string) {
		if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)); err != nil {
			t.Fatal(err)
		}
	}
	c := b.raw(t)
	ask[*kmsg.SASLHandshakeResponse](c, handshake(kafka.Plain), 0)
	send(c, "\x00alice\x00wonder land")
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil || size != [4]byte{} {
		t.Fatalf("answer of %x bytes, %v", size, err)
	}
	ask[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 4)

	for _, message := range []string{"\x00alice\x00wrong", "x", ""} {
		c = b.raw(t)
		ask[*kmsg.SASLHandshakeResponse](c, handshake(kafka.Plain), 0)
		send(c, message)
		c.closed()
	}
}

func TestUsers(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		b := serve(t, log, nil, &kafka.Listener{Mechanisms: allMechanisms})
		if us, err := b.Users(t.Context()); err != nil || len(us) != 0 {
			t.Fatalf("%v, %v", us, err)
		}
		for _, name := range []string{"bob", "alice", "álice=,x"} {
			if err := b.SetUser(t.Context(), name, "first"); err != nil {
				t.Fatal(err)
			}
			if err := b.SetUser(t.Context(), name, "pässword"); err != nil {
				t.Fatal(err)
			}
			for _, mechanism := range allMechanisms {
				if err := login(t, b, as(mechanism, name, "first")); err == nil {
					t.Errorf("%s: the old password of %s is still good", mechanism, name)
				}
				if err := login(t, b, as(mechanism, name, "pässword")); err != nil {
					t.Errorf("%s: %s: %v", mechanism, name, err)
				}
			}
		}
		if err := b.DeleteUser(t.Context(), "bob"); err != nil {
			t.Fatal(err)
		}
		if err := b.DeleteUser(t.Context(), "bob"); mainstem.KindOf(err) != mainstem.KindNotFound {
			t.Errorf("deleted twice: %v", err)
		}
		if err := login(t, b, as(kafka.Plain, "bob", "pässword")); err == nil {
			t.Error("a deleted user is let in")
		}
		got, err := b.Users(t.Context())
		scrams := []string{kafka.ScramSHA256, kafka.ScramSHA512}
		if diff := cmp.Diff([]kafka.User{{Name: "alice", Mechanisms: scrams}, {Name: "álice=,x", Mechanisms: scrams}}, got); diff != "" || err != nil {
			t.Errorf("%v: %s", err, diff)
		}
	})
}

func TestUsersRefused(t *testing.T) {
	b := start(t, nil, nil)
	for _, tt := range [][2]string{{"", "p"}, {"u", ""}, {strings.Repeat("u", kafka.MaxUser+1), "p"}, {"u", strings.Repeat("p", kafka.MaxPassword+1)}, {"\xff", "p"}, {"u", "\xff"}} {
		if err := b.SetUser(t.Context(), tt[0], tt[1]); mainstem.KindOf(err) != mainstem.KindInvalid {
			t.Errorf("%.10q: %v", tt, err)
		}
	}
	topics, err := topic.Open(testengines.Memory(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer topics.Close()
	s, err := kafka.Open(t.Context(), topics, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := s.Serve(l, &kafka.Listener{Mechanisms: []string{"GSSAPI"}}); mainstem.KindOf(err) != mainstem.KindInvalid || !strings.Contains(err.Error(), "GSSAPI") {
		t.Errorf("an unknown mechanism: %v", err)
	}
}

// No password is in the log, nor anything about users in its feed.
func TestPasswordsAreNotStored(t *testing.T) {
	b := locked(t, kafka.ScramSHA256)
	for rec, err := range b.log.Scan(t.Context(), kafka.UserSpace, mainstem.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(rec.Value), "wonder") {
			t.Errorf("key %q holds the password", rec.Key)
		}
	}
	for rec, err := range b.log.Feed(t.Context(), mainstem.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Space == kafka.UserSpace {
			t.Errorf("key %q is in the feed", rec.Key)
		}
	}
}

// A client that does not authenticate is disconnected after the timeout, whatever it sends.
func TestTimeToAuthenticate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 20 * time.Second
		c := piped(t, &kafka.Options{AuthTimeout: limit}, &kafka.Listener{Mechanisms: []string{kafka.Plain}})
		begin := time.Now()
		for time.Since(begin) < limit-5*time.Second {
			time.Sleep(4 * time.Second)
			ask[*kmsg.ApiVersionsResponse](c, apiVersions(), 3)
		}
		c.closed()
		if took := time.Since(begin); took != limit {
			t.Errorf("it was served for %s", took)
		}
	})
}

func TestSizeBeforeAuthentication(t *testing.T) {
	b := locked(t, kafka.Plain)
	c := b.raw(t)
	if _, err := c.Write([]byte{0, 1, 0, 1}); err != nil { // 64 KiB and 1 byte
		t.Fatal(err)
	}
	c.closed()
}
