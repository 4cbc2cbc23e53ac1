// Package devca makes the certificates that the nodes of a cluster need, for development and for
// clusters on one's own machines.
//
// # Nouns
//
// An [Authority] issues certificates, each for one node; all nodes of a cluster trust it. [Create]
// keeps one in a directory:
//
//	ca.pem          the authority's certificate: every node needs it
//	ca.key          its key: only for Create; keep it off the nodes
//	NAME.node.pem   the certificate of a node
//	NAME.node.key   its key: for that node only
//
// [Load] reads the files that one node needs. In file names, NAME is escaped like a segment of the
// path of a URL: special bytes become %XX.
//
//	err := devca.Create("certs", "shop", "stock")
//	cert, roots, err := devca.Load("certs", "shop")
//
// # Guarantees
//
// Keys are ECDSA P-256, unencrypted in files of mode 0600. The name of a node is in its certificate
// as the URI mainstem://node/NAME, and as a DNS name if it can be one. A certificate is valid for
// both ends of connections. The authority cannot sign other authorities.
//
// Create keeps files that are usable: called again it makes the missing certificates, and replaces
// those that end within [RenewBefore], cannot be read, or are of another authority. Each file is
// written whole or not at all; a certificate and its key are two files.
//
// There is no revocation: if a key was lost or stolen, make another authority. Clusters that have
// certificates from elsewhere do not need this package.
//
// # Concurrency and ownership
//
// An Authority may be used by many goroutines. Calls of Create for one directory at the same time use
// one authority. If they have the same name, they could mix two keys of that node; the next Create
// makes another.
//
// # Testing
//
// [New] makes an authority in memory, for tests of what uses TLS.
package devca
