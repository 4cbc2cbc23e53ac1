// Package mainstemv1 holds the messages of the RPC service in log.proto, which is
// its documentation. All other files are generated: see package rpc for how, and
// for the server; package remotelog is the client for Go programs.
package mainstemv1
