package suite_test

import (
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// TestReached: an entry says where the server is that the user named, and not only
// which protocol it speaks.
func TestReached(t *testing.T) {
	for _, c := range []struct {
		declared suite.Transport
		address  string
		want     suite.Transport
	}{
		{suite.LoopbackTCP, "", suite.LoopbackTCP}, // the bench starts it
		{suite.LoopbackTCP, "127.0.0.1:6379", suite.LoopbackTCP},
		{suite.LoopbackTCP, "localhost:6379", suite.LoopbackTCP},
		{suite.LoopbackTCP, "[::1]:6379", suite.LoopbackTCP},
		{suite.LoopbackTCP, "10.0.0.7:6379", suite.NetworkTCP},
		{suite.LoopbackTCP, "db.example.com:6379", suite.NetworkTCP},
		{suite.LoopbackTCP, "127.0.0.1:9092,10.0.0.7:9092", suite.NetworkTCP},
		{suite.LoopbackTCP, "/run/redis.sock", suite.UnixSocket},
		{suite.LoopbackTCP, "postgres://u:p@127.0.0.1:5432/db", suite.LoopbackTCP},
		{suite.LoopbackTCP, "postgres://u@db.example.com/db?sslmode=disable", suite.NetworkTCP},
		{suite.LoopbackTCP, "postgres:///db?host=/var/run/postgresql", suite.UnixSocket},
		{suite.LoopbackTCP, "postgres:///db", suite.UnixSocket},
		{suite.LoopbackTCP, "user=bench host=/tmp dbname=db", suite.UnixSocket},
		{suite.LoopbackTCP, "user=bench host=10.1.2.3 dbname=db", suite.NetworkTCP},
		{suite.LoopbackHTTP, "http://127.0.0.1:8080,http://127.0.0.1:8081", suite.LoopbackHTTP},
		{suite.LoopbackHTTP, "https://omnibus.example.com", suite.NetworkHTTP},
		{suite.InProcess, "10.0.0.7:6379", suite.InProcess},
		{"", "10.0.0.7:6379", ""},
	} {
		e := suite.Entry{Transport: c.declared, Address: "db"}
		got := e.Reached(&suite.Env{Addresses: map[string]string{"db": c.address, "": "10.9.9.9:1"}})
		if got != c.want {
			t.Errorf("%q at %q is reached over %q, want %q", c.declared, c.address, got, c.want)
		}
	}
	e := suite.Entry{Transport: suite.LoopbackTCP}
	if got := e.Reached(&suite.Env{Addresses: map[string]string{"": "10.9.9.9:1"}}); got != suite.LoopbackTCP {
		t.Errorf("a server that the bench starts is reached over %q", got)
	}
}
