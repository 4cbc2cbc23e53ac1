package devca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/readfile"
)

// Create makes an authority in a directory, and certificates for nodes. It uses an authority that
// exists, and keeps certificates that exist, unless they end within [RenewBefore], cannot be read, or
// are of another authority. So it can be called again, with more names or to renew. It fails with
// Invalid for names that no node can have, before it writes anything, with Corrupt if the files of
// the authority do not have a key and its certificate, and with Exists if the certificate is there
// and the key is not. If only the key is there, it makes a new certificate for it, which the nodes
// trust that have the old one.
func Create(dir string, names ...string) error {
	for _, name := range names {
		if err := validName(name); err != nil {
			return err
		}
	}
	a, err := Open(dir)
	if errors.Is(err, mainstem.ErrNotFound) {
		a, err = create(dir)
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if a.good(dir, name) {
			continue
		}
		cert, err := a.Issue(name)
		if err != nil {
			return err
		}
		certFile, keyFile := files(dir, name)
		if err := write(certFile, keyFile, cert.Leaf, cert.PrivateKey.(*ecdsa.PrivateKey)); err != nil {
			return err
		}
	}
	return nil
}

// create makes an authority in a directory that has none. Of several calls at the same time, the
// first that writes the key determines it for all, and the same holds for its certificate: so the
// two fit.
func create(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, mainstem.Errorf(mainstem.KindUnavailable, "create authority", "%w", err)
	}
	certFile := filepath.Join(dir, CertificateFile)
	_, err := os.Stat(certFile) // before the key, which is written first
	key, err := authorityKey(dir, !errors.Is(err, fs.ErrNotExist))
	if err != nil {
		return nil, err
	}
	a, err := certify(key)
	if err != nil {
		return nil, err
	}
	err = writeFile(certFile, &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}, placeNew)
	if errors.Is(err, fs.ErrExist) {
		return Open(dir)
	}
	return a, err
}

// authorityKey returns the key of the authority in a directory. If there is none it makes one, unless
// the authority is certified: the key is kept elsewhere.
func authorityKey(dir string, certified bool) (*ecdsa.PrivateKey, error) {
	keyFile := filepath.Join(dir, KeyFile)
	text, err := readFile(keyFile)
	if errors.Is(err, mainstem.ErrNotFound) {
		if certified {
			return nil, mainstem.Errorf(mainstem.KindExists, "create authority", "%s has %s, but not its key %s", dir, CertificateFile, KeyFile).
				WithHint("copy the key there from where it is kept; or, for a new authority that the present nodes do not trust, remove " + CertificateFile)
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, mainstem.Errorf(mainstem.KindInternal, "make authority", "%w", err)
		}
		if err := writeKey(keyFile, key, placeNew); !errors.Is(err, fs.ErrExist) {
			return key, err
		}
		text, err = readFile(keyFile)
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(text); block != nil {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := key.(*ecdsa.PrivateKey); ok {
				return key, nil
			}
		}
	}
	return nil, mainstem.Errorf(mainstem.KindCorrupt, "create authority", "%s has no key of an authority of this package", keyFile)
}

// Open reads an authority that [Create] has made. It fails with NotFound if one of its files is
// missing, with Corrupt if they do not have a key and its certificate.
func Open(dir string) (*Authority, error) {
	pair, err := read(filepath.Join(dir, CertificateFile), filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, mainstem.Errorf(mainstem.KindCorrupt, "open authority", "%s has no authority of this package", dir)
	}
	return &Authority{pair.Leaf, key}, nil
}

// Load reads the certificate and key of a node, and the pool with the authority. The directory
// needs only [CertificateFile] and the two files of the node. Load fails with NotFound if one is
// missing, with Corrupt if they have no certificate or the key is of another one.
func Load(dir, name string) (tls.Certificate, *x509.CertPool, error) {
	if err := validName(name); err != nil {
		return tls.Certificate{}, nil, err
	}
	certFile, keyFile := files(dir, name)
	cert, err := read(certFile, keyFile)
	if err != nil {
		return cert, nil, err
	}
	authority := filepath.Join(dir, CertificateFile)
	text, err := readFile(authority)
	if err != nil {
		return cert, nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return cert, nil, mainstem.Errorf(mainstem.KindCorrupt, "load certificate", "%s has no certificate", authority)
	}
	return cert, roots, nil
}

// good reports whether a node has a certificate and key that can be kept.
func (a *Authority) good(dir, name string) bool {
	cert, err := read(files(dir, name))
	if err != nil {
		return false
	}
	_, err = cert.Leaf.Verify(x509.VerifyOptions{
		Roots:       a.Roots(),
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		CurrentTime: time.Now().Add(RenewBefore),
	})
	return err == nil && len(cert.Leaf.URIs) == 1 && cert.Leaf.URIs[0].Path == "/"+name
}

// files returns the names of the files of a node.
func files(dir, name string) (cert, key string) {
	base := filepath.Join(dir, url.PathEscape(name)+".node")
	return base + ".pem", base + ".key"
}

// read reads a certificate and its key.
func read(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := readFile(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readFile(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, mainstem.Errorf(mainstem.KindCorrupt, "read "+certFile, "%w", err)
	}
	return pair, nil
}

func readFile(name string) ([]byte, error) {
	text, err := readfile.All(name, readfile.Text)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "read certificate", Err: err, Hint: "Create makes it"}
	case err != nil:
		return nil, mainstem.Errorf(mainstem.KindUnavailable, "read certificate", "%w", err)
	}
	return text, nil
}

// write writes a key and then its certificate. If it fails in between, the certificate is missing or
// of another key, and the next Create makes both again.
func write(certFile, keyFile string, cert *x509.Certificate, key *ecdsa.PrivateKey) error {
	if err := writeKey(keyFile, key, os.Rename); err != nil {
		return err
	}
	return writeFile(certFile, &pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}, os.Rename)
}

func writeKey(name string, key *ecdsa.PrivateKey, place func(from, to string) error) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return mainstem.Errorf(mainstem.KindInternal, "write key", "%w", err)
	}
	return writeFile(name, &pem.Block{Type: "PRIVATE KEY", Bytes: der}, place)
}

// writeFile writes a file whole or not at all. It is made with mode 0600. place puts it in its place:
// os.Rename replaces a file that is there, placeNew fails then.
func writeFile(name string, block *pem.Block, place func(from, to string) error) (err error) {
	defer func() {
		if err != nil {
			err = mainstem.Errorf(mainstem.KindUnavailable, "write certificate", "%w", err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // after the rename it is gone already
	if _, err = f.Write(pem.EncodeToMemory(block)); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return place(f.Name(), name)
}

// placeNew is os.Rename that fails with fs.ErrExist if a file is there, where file systems have links.
func placeNew(from, to string) error {
	if err := os.Link(from, to); err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(from, to)
}
