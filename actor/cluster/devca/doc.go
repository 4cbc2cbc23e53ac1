// Package devca makes the certificates that nodes of a cluster need, for development
// and for clusters on one's own machines: one call, and every node can prove its name.
//
// # Nouns
//
// An [Authority] issues certificates, each for one node, and is believed by all nodes
// of a cluster. [Create] keeps one in a directory:
//
//	ca.pem          the authority's certificate: every node needs it
//	ca.key          its key: only for Create; keep it off the nodes
//	NAME.node.pem   the certificate of a node
//	NAME.node.key   its key: for that node only
//
// [Load] reads what one node needs. In file names, bytes of NAME that are special in
// URLs are written as %XX.
//
//	err := devca.Create("certs", "shop", "stock")
//	cert, roots, err := devca.Load("certs", "shop")
//
// # Guarantees
//
// Keys are ECDSA P-256, made on the spot, unencrypted in files of mode 0600. The name
// of a node is in its certificate as the URI mainstem://node/NAME, and as a DNS name if it
// can be one. A certificate is good for both ends of connections. The authority cannot
// sign other authorities.
//
// Create keeps the files that exist: called again it makes the missing ones, and renews
// certificates that end within [RenewBefore]. Each file is written whole or not at all.
//
// There is no revocation: who lost a key makes another authority. Clusters that have
// certificates from elsewhere do not need this package.
//
// # Concurrency and ownership
//
// An Authority may be used by many goroutines. Of two calls of Create for one empty
// directory at the same time, one may fail.
//
// # Testing
//
// [New] makes an authority in memory, for tests of what uses TLS.
package devca
