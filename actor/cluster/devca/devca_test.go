package devca_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/devca"
)

func TestCreateMakesWhatNodesNeed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	names := []string{"shop", "shop@host:1", "ca", "ä b", strings.Repeat("n", 70)}
	if err := devca.Create(dir, names...); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		cert, roots, err := devca.Load(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			o := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{use}}
			if _, err := cert.Leaf.Verify(o); err != nil {
				t.Errorf("the certificate of %q: %v", name, err)
			}
		}
		if got := cert.Leaf.URIs[0]; got.Scheme != "mainstem" || got.Host != "node" || got.Path != "/"+name {
			t.Errorf("the certificate of %q has the URI %q", name, got)
		}
		if isHost := name == "shop" || name == "ca"; isHost && !slices.Equal(cert.Leaf.DNSNames, []string{name}) {
			t.Errorf("the certificate of %q has the DNS names %q", name, cert.Leaf.DNSNames)
		}
		if cert.Leaf.IsCA {
			t.Errorf("the certificate of %q can sign others", name)
		}
	}
	if _, err := devca.Open(dir); err != nil {
		t.Error(err)
	}
}

func TestFilesAreTheOwnersOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	if err := devca.Create(dir, "shop"); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil || files != 4 {
		t.Errorf("there are %d files, want 4 (%v)", files, err)
	}
}

func TestCreateKeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	if err := devca.Create(dir, "a"); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	if err := devca.Create(dir, "a", "b"); err != nil {
		t.Fatal(err)
	}
	after := contents(t, dir)
	for name, text := range before {
		if !bytes.Equal(after[name], text) {
			t.Errorf("%s was written again", name)
		}
	}
	if len(after) != len(before)+2 {
		t.Errorf("there are %d files, then %d: want two more", len(before), len(after))
	}
}

func TestCreateReplacesWhatAnotherAuthorityIssued(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, other} {
		if err := devca.Create(d, "a"); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"a.node.pem", "a.node.key"} {
		text, err := os.ReadFile(filepath.Join(other, f))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, f), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := devca.Create(dir, "a"); err != nil {
		t.Fatal(err)
	}
	cert, roots, err := devca.Load(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots}); err != nil {
		t.Error(err)
	}
}

func TestCreateDoesNotReplaceAnAuthority(t *testing.T) {
	dir := t.TempDir()
	if err := devca.Create(dir, "a"); err != nil {
		t.Fatal(err)
	}
	whole := contents(t, dir)
	if err := os.Remove(filepath.Join(dir, devca.KeyFile)); err != nil {
		t.Fatal(err)
	}
	if err := devca.Create(dir, "b"); !errors.Is(err, mainstem.ErrExists) || !strings.Contains(err.Error(), devca.KeyFile) {
		t.Errorf("an authority without its key: %v, want Exists", err)
	}
	if after := contents(t, dir); len(after) != len(whole)-1 || !bytes.Equal(after[devca.CertificateFile], whole[devca.CertificateFile]) {
		t.Errorf("a call that failed has changed the files: %d are there", len(after))
	}

	// The key alone is what an interrupted call leaves.
	if err := os.WriteFile(filepath.Join(dir, devca.KeyFile), whole[devca.KeyFile], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, devca.CertificateFile)); err != nil {
		t.Fatal(err)
	}
	if err := devca.Create(dir, "a"); err != nil {
		t.Fatal(err)
	}
	after := contents(t, dir)
	if !bytes.Equal(after[devca.KeyFile], whole[devca.KeyFile]) || !bytes.Equal(after["a.node.pem"], whole["a.node.pem"]) {
		t.Error("the key, or the certificate of a node, was replaced")
	}
	cert, _, err := devca.Load(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	old := x509.NewCertPool()
	old.AppendCertsFromPEM(whole[devca.CertificateFile])
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: old}); err != nil {
		t.Errorf("nodes that have the former certificate: %v", err)
	}
}

func TestCallsAtTheSameTimeMakeOneAuthority(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	var calls sync.WaitGroup
	for i := range 16 {
		calls.Go(func() {
			if err := devca.Create(dir, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if _, err := devca.Open(dir); err != nil {
		t.Error(err)
	}
	for i := range 16 {
		cert, roots, err := devca.Load(dir, fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots}); err != nil {
			t.Errorf("the certificate of %d: %v", i, err)
		}
	}
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", "a/b", strings.Repeat("n", devca.MaxName+1)} {
		if err := devca.Create(dir, "good", name); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("a node called %.20q: %v", name, err)
		}
	}
	if left := contents(t, dir); len(left) > 0 {
		t.Errorf("a call with a wrong name wrote %d files", len(left))
	}
	if _, _, err := devca.Load(dir, "a"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("an empty directory: %v", err)
	}
	if err := devca.Create(dir, "a"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, devca.KeyFile), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := devca.Create(dir, "b"); !errors.Is(err, mainstem.ErrCorrupt) {
		t.Errorf("a broken key: %v", err)
	}
}

func TestCertificatesEnd(t *testing.T) {
	a, err := devca.New()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Issue("a")
	if err != nil {
		t.Fatal(err)
	}
	o := x509.VerifyOptions{Roots: a.Roots(), CurrentTime: time.Now().Add(devca.NodeLifetime + time.Minute)}
	if _, err := cert.Leaf.Verify(o); err == nil {
		t.Error("the certificate is good after its end")
	}
}

// contents returns the files of a directory.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
