package devca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Limits, times and the names of files.
const (
	MaxName = 255 // bytes of the name of a node

	Lifetime     = 10 * 365 * 24 * time.Hour // of the authority's certificate
	NodeLifetime = 2 * 365 * 24 * time.Hour  // of the certificate of a node
	RenewBefore  = 30 * 24 * time.Hour       // [Create] replaces a node's certificate that ends so soon

	CertificateFile = "ca.pem" // of the authority: all nodes need it
	KeyFile         = "ca.key" // of the authority: only Create needs it
)

// clockSkew is how far certificates are dated back, for nodes whose clocks are slow.
const clockSkew = time.Hour

// Authority issues certificates for nodes. Its methods may be called by many goroutines.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns a new authority in memory. It fails with Internal only.
func New() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, mainstem.Errorf(mainstem.KindInternal, "make authority", "%w", err)
	}
	return certify(key)
}

// certify returns the authority of a key, with a new certificate.
func certify(key *ecdsa.PrivateKey) (*Authority, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{"Mainstem development"}, CommonName: "Mainstem development authority"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(Lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	cert, err := sign(c, c, &key.PublicKey, key)
	return &Authority{cert, key}, err
}

// Roots returns the pool that trusts this authority and no other.
func (a *Authority) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Issue returns a new key and a certificate for a node, valid for [NodeLifetime] and for both ends
// of connections. It has the name as a URI, and as a DNS name if it can be one. It fails with
// Invalid for a name that no node can have.
func (a *Authority) Issue(name string) (tls.Certificate, error) {
	if err := validName(name); err != nil {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, mainstem.Errorf(mainstem.KindInternal, "issue certificate", "%w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Mainstem development"}, CommonName: shortName(name)},
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(NodeLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:         []*url.URL{{Scheme: "mainstem", Host: "node", Path: "/" + name}},
	}
	if isHost(name) {
		c.DNSNames = []string{name}
	}
	leaf, err := sign(c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

func sign(c, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, c, parent, public, key)
	if err != nil {
		return nil, mainstem.Errorf(mainstem.KindInternal, "sign certificate", "%w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, mainstem.Errorf(mainstem.KindInternal, "sign certificate", "%w", err)
	}
	return cert, nil
}

func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, mainstem.Errorf(mainstem.KindInternal, "choose serial number", "%w", err)
	}
	return n, nil
}

// shortName returns the first 64 bytes of a name, the limit of a CommonName (RFC 5280).
func shortName(name string) string { return name[:min(len(name), 64)] }

// isHost reports whether a name can be a DNS name. An underscore is allowed.
func isHost(name string) bool {
	if net.ParseIP(name) != nil || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
				return false
			}
		}
	}
	return true
}

func validName(name string) error {
	switch {
	case name == "":
		return mainstem.Errorf(mainstem.KindInvalid, "issue certificate", "the name of the node is empty")
	case len(name) > MaxName:
		return mainstem.Errorf(mainstem.KindInvalid, "issue certificate", "the name of the node has %d bytes: the limit is %d", len(name), MaxName)
	case strings.ContainsAny(name, "/\x00\r\n"):
		return mainstem.Errorf(mainstem.KindInvalid, "issue certificate", "the name %.64q of the node has a character that ends names elsewhere", name)
	}
	return nil
}
