package link

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash"
	"net/url"
	"slices"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

// NameURI returns the URI by which a certificate can carry the name of a node, for
// names that cannot be DNS names: mainstem://node/name.
func NameURI(name string) *url.URL {
	return &url.URL{Scheme: "mainstem", Host: "node", Path: "/" + name}
}

const (
	protocolName  = "mainstem-link/1"        // in TLS's negotiation
	exporterLabel = "EXPORTER-mainstem-link" // of the bytes that bind a proof to its TLS connection
	keySalt       = "mainstem link secret"
	keyRounds     = 1 << 14 // makes guessing a weak secret from a recorded handshake dear
)

// role keeps the proof of one end from being good for the other.
type role string

const (
	dialer   role = "mainstem link 1 dialer"
	acceptor role = "mainstem link 1 acceptor"
)

// deriveKey returns the key of proofs. Without a secret it is known to all: TLS then
// proves who connects.
func deriveKey(secret []byte) ([]byte, error) {
	if len(secret) == 0 {
		return make([]byte, sha256.Size), nil
	}
	return pbkdf2.Key(sha256.New, string(secret), []byte(keySalt), keyRounds, sha256.Size)
}

// transcript is what both ends have seen of a handshake, and of TLS below it.
type transcript struct {
	key     []byte
	binding []byte // of the TLS connection; nil without one
	hash.Hash
}

// newTranscript begins the transcript of a connection, whose TLS handshake is over.
func newTranscript(key []byte, state *tls.ConnectionState) (*transcript, error) {
	t := &transcript{key: key, Hash: sha256.New()}
	if state == nil {
		return t, nil
	}
	var err error
	t.binding, err = state.ExportKeyingMaterial(exporterLabel, nil, sha256.Size)
	return t, err
}

// mac returns the proof of one end, for what it signs at this point of the handshake.
func (t *transcript) mac(r role, signed []byte) (m [frame.MACSize]byte) {
	h := hmac.New(sha256.New, t.key)
	h.Write([]byte(r))
	h.Write([]byte{0, byte(len(t.binding))})
	h.Write(t.binding)
	h.Write(t.Sum(nil))
	h.Write(signed)
	h.Sum(m[:0])
	return m
}

// proven reports whether m is the proof of an end.
func (t *transcript) proven(r role, signed []byte, m [frame.MACSize]byte) bool {
	want := t.mac(r, signed)
	return hmac.Equal(want[:], m[:])
}

// serverTLS returns how connections are accepted.
func (t *TLS) serverTLS() *tls.Config {
	c := t.config()
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs = t.Roots
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.current() }
	return c
}

// clientTLS returns how connections are dialed. The certificate of a node has the name of
// a node and not of a host: so it is verified here, and the name in the handshake.
func (t *TLS) clientTLS() *tls.Config {
	c := t.config()
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.current() }
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(state tls.ConnectionState) error {
		return verify(state.PeerCertificates, t.Roots)
	}
	return c
}

func (t *TLS) config() *tls.Config {
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		NextProtos:                  []string{protocolName},
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true, // frames are written when there is much to write
	}
}

func (t *TLS) current() (*tls.Certificate, error) {
	if t.Renew != nil {
		return t.Renew()
	}
	return &t.Certificate, nil
}

// verify checks the chain of an acceptor's certificate.
func verify(chain []*x509.Certificate, roots *x509.CertPool) error {
	if len(chain) == 0 {
		return errors.New("the peer has no certificate")
	}
	middle := x509.NewCertPool()
	for _, c := range chain[1:] {
		middle.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: middle, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

// certified checks that the peer's certificate carries a name.
func certified(state *tls.ConnectionState, name string) error {
	if state == nil {
		return nil
	}
	if len(state.PeerCertificates) == 0 {
		return errors.New("the peer has no certificate")
	}
	cert, want := state.PeerCertificates[0], NameURI(name).String()
	if slices.Contains(cert.DNSNames, name) ||
		slices.ContainsFunc(cert.URIs, func(u *url.URL) bool { return u.String() == want }) {
		return nil
	}
	return fmt.Errorf("the peer calls itself %.64q: its certificate is for %.256q %.256q", name, cert.DNSNames, cert.URIs)
}
