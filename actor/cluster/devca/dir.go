package devca

import (
	"crypto/ecdsa"
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

// Create makes an authority in a directory, and certificates for nodes. An authority
// that is there is used, and certificates that are there are kept unless they end soon or
// are another authority's: so it can be called again, with more names or to renew. It fails
// with Invalid for names that no node can have, before it writes anything, and with Corrupt if
// the authority's files are not what was written.
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

// create makes an authority in a directory that has none.
func create(dir string) (*Authority, error) {
	a, err := New()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, mainstem.Errorf(mainstem.KindUnavailable, "create authority", "%w", err)
	}
	return a, write(filepath.Join(dir, CertificateFile), filepath.Join(dir, KeyFile), a.cert, a.key)
}

// Open reads an authority that [Create] has made. It fails with NotFound if there is
// none, with Corrupt if its files are not what was written.
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

// Load reads what a node needs to prove its name, and to have others prove theirs. The
// directory needs [CertificateFile] and the two files of the node. It fails with NotFound if one
// is missing, with Corrupt if they are not what was written.
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

// good reports whether a node has a certificate that needs not be made.
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

// write writes the key first: a certificate without its key would look complete.
func write(certFile, keyFile string, cert *x509.Certificate, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return mainstem.Errorf(mainstem.KindInternal, "write key", "%w", err)
	}
	if err := writeFile(keyFile, &pem.Block{Type: "PRIVATE KEY", Bytes: der}); err != nil {
		return err
	}
	return writeFile(certFile, &pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// writeFile writes a file whole or not at all. It is made with mode 0600.
func writeFile(name string, block *pem.Block) (err error) {
	defer func() {
		if err != nil {
			err = mainstem.Errorf(mainstem.KindUnavailable, "write certificate", "%w", err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is gone if all went well
	if _, err = f.Write(pem.EncodeToMemory(block)); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
