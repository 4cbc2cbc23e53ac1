package servertest_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mainstemdev/mainstem/internal/servertest"
)

func ExampleWriteCertificate() {
	dir, err := os.MkdirTemp("", "certificate")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := servertest.WriteCertificate(cert, key); err != nil {
		fmt.Println(err)
		return
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	fmt.Println(pair.Leaf.VerifyHostname("localhost"), err)
	// Output: <nil> <nil>
}
