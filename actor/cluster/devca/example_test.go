package devca_test

import (
	"crypto/tls"
	"fmt"
	"log"
	"os"

	"github.com/mainstemdev/mainstem/actor/cluster/devca"
)

// One call makes the certificates with which two nodes trust each other, and no others.
func Example() {
	dir, err := os.MkdirTemp("", "certs")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	if err := devca.Create(dir, "shop", "stock"); err != nil {
		log.Fatal(err)
	}
	cert, roots, err := devca.Load(dir, "shop")
	if err != nil {
		log.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, ClientCAs: roots}
	fmt.Println(len(config.Certificates), cert.Leaf.URIs[0])
	// Output: 1 mainstem://node/shop
}
