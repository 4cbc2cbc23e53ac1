// Package mainstemv1connect holds the client and the handler of the RPC service
// in log.proto, generated; see package rpc.
package mainstemv1connect
