package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// authority signs certificates for one test.
type authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) issue(subject pkix.Name) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestTLS(t *testing.T) {
	a := newAuthority(t)
	b := start(t, nil, &kafka.Listener{
		TLS: &tls.Config{Certificates: []tls.Certificate{a.issue(pkix.Name{CommonName: "broker"})}}, Mechanisms: []string{kafka.ScramSHA256},
	})
	if err := b.SetUser(t.Context(), "alice", "p"); err != nil {
		t.Fatal(err)
	}
	cl := b.client(t, kgo.DialTLSConfig(&tls.Config{RootCAs: a.pool}), kgo.SASL(as(kafka.ScramSHA256, "alice", "p")))
	if _, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), cl); err != nil {
		t.Fatal(err)
	}
	b.topic(t, "t", 1)
	reader := b.client(t, kgo.DialTLSConfig(&tls.Config{RootCAs: a.pool}), kgo.SASL(as(kafka.ScramSHA256, "alice", "p")), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for i := range 20 { // the reader waits in between, and goes on on the same connection
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte(strconv.Itoa(i))}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if got := records(t, reader, 1); string(got[0].Value) != strconv.Itoa(i) {
			t.Fatalf("record %d is %q", i, got[0].Value)
		}
	}
	c := b.raw(t) // without TLS
	c.send(apiVersions(), 3)
	answer := make([]byte, 64)
	if n, _ := c.Read(answer); n > 0 && answer[0] != 0x15 { // an alert
		t.Errorf("answered %x", answer[:n])
	}
}

func TestClientCertificates(t *testing.T) {
	a := newAuthority(t)
	server := &tls.Config{
		Certificates: []tls.Certificate{a.issue(pkix.Name{CommonName: "broker"})},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: a.pool,
	}
	var log testkit.Lines
	b := start(t, &kafka.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, &kafka.Listener{TLS: server})
	ask := func(cfg *tls.Config) error {
		cl := b.client(t, kgo.DialTLSConfig(cfg), kgo.RequestRetries(0), kgo.RetryTimeout(2*time.Second))
		_, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), cl)
		return err
	}
	if err := ask(&tls.Config{RootCAs: a.pool, Certificates: []tls.Certificate{a.issue(pkix.Name{CommonName: "app", Organization: []string{"example"}})}}); err != nil {
		t.Error(err)
	}
	if want := `principal="User:CN=app,O=example" by=certificate`; !strings.Contains(log.String(), want) {
		t.Errorf("the log does not have %s:\n%s", want, log.String())
	}
	if err := ask(&tls.Config{RootCAs: a.pool}); err == nil {
		t.Error("a client without a certificate is served")
	}
	other := newAuthority(t)
	if err := ask(&tls.Config{RootCAs: a.pool, Certificates: []tls.Certificate{other.issue(pkix.Name{CommonName: "app"})}}); err == nil {
		t.Error("a client with a certificate of another authority is served")
	}
}

// A client that does not finish the handshake is disconnected after the timeout.
func TestTimeToShakeHands(t *testing.T) {
	cert := newAuthority(t).issue(pkix.Name{CommonName: "broker"})
	synctest.Test(t, func(t *testing.T) {
		const limit = 7 * time.Second
		c := piped(t, &kafka.Options{AuthTimeout: limit}, &kafka.Listener{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
		begin := time.Now()
		c.closed()
		if took := time.Since(begin); took != limit {
			t.Errorf("it was served for %s", took)
		}
	})
}
