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

// NameURI returns the URI that a certificate has for the node of a name, mainstem://node/name. It
// works for names that cannot be DNS names.
func NameURI(name string) *url.URL {
	return &url.URL{Scheme: "mainstem", Host: "node", Path: "/" + name}
}

const (
	protocolName  = "mainstem-link/1"        // for ALPN (RFC 7301)
	exporterLabel = "EXPORTER-mainstem-link" // of exported keying material (RFC 5705)
	keySalt       = "mainstem link secret"
	keyRounds     = 1 << 14 // of PBKDF2: slows down guessing a weak secret from a recorded handshake
)

// role is part of every MAC, so that the proof of one end cannot be sent back as that of the other.
type role string

const (
	dialer   role = "mainstem link 1 dialer"
	acceptor role = "mainstem link 1 acceptor"
)

// deriveKey returns the key of proofs. Without a secret it is all zeros: then only TLS proves who
// connects.
func deriveKey(secret []byte) ([]byte, error) {
	if len(secret) == 0 {
		return make([]byte, sha256.Size), nil
	}
	return pbkdf2.Key(sha256.New, string(secret), []byte(keySalt), keyRounds, sha256.Size)
}

// transcript is the hash of the messages of a handshake so far, the same at both ends.
type transcript struct {
	key       []byte
	binding   []byte // keying material exported from the TLS connection; nil without TLS
	hash.Hash        // of all messages, with their prefaces
}

// newTranscript begins the transcript of a connection after its TLS handshake.
func newTranscript(key []byte, state *tls.ConnectionState) (*transcript, error) {
	t := &transcript{key: key, Hash: sha256.New()}
	if state == nil {
		return t, nil
	}
	var err error
	t.binding, err = state.ExportKeyingMaterial(exporterLabel, nil, sha256.Size)
	return t, err
}

// mac returns the proof of one end at this point of the handshake: an HMAC of its role, the binding,
// the transcript so far, and the signed fields of its message.
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

// proven reports whether m is the mac of an end. It takes the same time for all m.
func (t *transcript) proven(r role, signed []byte, m [frame.MACSize]byte) bool {
	want := t.mac(r, signed)
	return hmac.Equal(want[:], m[:])
}

// serverTLS returns the configuration of accepted connections.
func (t *TLS) serverTLS() *tls.Config {
	c := t.config()
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs = t.Roots
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.current() }
	return c
}

// clientTLS returns the configuration of dialed connections. A certificate has the name of a node and
// not of a host, so crypto/tls cannot verify it: VerifyConnection verifies the chain, and certified
// the name, before anything is sent.
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
		DynamicRecordSizingDisabled: true, // frames gather into large writes
	}
}

// current returns the certificate for a new connection.
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

// certified returns an error unless the peer's certificate has the name of a node, as a DNS name or
// as its NameURI. Without TLS it returns nil.
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
