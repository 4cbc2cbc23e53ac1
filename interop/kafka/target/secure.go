package target

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Secure starts a server that demands TLS and a password, and returns where it is,
// with the one user that it knows. The caller chooses the mechanism.
func Secure(t *testing.T) *kafka.Endpoint {
	t.Helper()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := certify(cert, key); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	const user, password = "alice", "correct horse"
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Command(t.Context(), "kafka", "user", "set", user, "--password-file", secret, "--log", log); err != nil {
		t.Fatal(err)
	}
	p := mainstem(t, log, "--tls-cert", cert, "--tls-key", key, "--kafka-sasl", "plain,scram-sha-256,scram-sha-512")
	return &kafka.Endpoint{Address: p.Kafka, CA: cert, User: user, Password: password}
}

// certify writes a certificate of loopback that is its own authority.
func certify(cert, key string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mainstem interop"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600)
}
