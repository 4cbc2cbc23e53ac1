// Package httpconn is HTTP/1.1 on a connection that its user holds: for clients that
// pool connections by themselves, and must know whether a request was sent.
//
// # Words
//
// A [Target] is a server: an address, a path below which everything is, TLS or not. A
// [Conn] is one connection to it and does one [Request] at a time. A [Pool] keeps
// connections of one target and does requests on them.
//
//	target, err := httpconn.ParseTarget("http://127.0.0.1:8080", nil)
//	pool := httpconn.NewPool(target, nil)
//	resp, err := pool.Do(ctx, &httpconn.Request{Method: "GET", Path: "/clusterNames"})
//	defer resp.Close()
//
// # Guarantees
//
// An error with [mainstem.NotWritten] means that the server cannot have got the whole
// request: no connection, or it was not written to its end. Any other failure leaves it
// Unknown. No request is sent twice, but for one that certainly was not sent. A
// connection whose answer was not read to its end, or did not come in time, is closed
// and never used again.
//
// # Errors
//
// All are *mainstem.Error: Unavailable for the network, Canceled for the context,
// Corrupt for an answer that is no HTTP, Invalid for a target or request that cannot be.
//
// # Concurrency and ownership
//
// A Pool may be used by many goroutines, a Conn by one at a time. A Response belongs
// to its connection: it is good until it is closed. There are no goroutines.
//
// # Limits
//
// [MaxHeader] bounds the head of an answer; what may be read of its body is for the
// reader to bound. No proxies, no HTTP/2, no redirects.
//
// # Testing
//
// Tests run against net/http; a fuzz test compares what is made of bytes with it.
package httpconn
