package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	main()
	// Output:
	// the counter of node one is 10
	// the counter of node two is 10
}

// What two processes do, in one.
func TestTwoNodes(t *testing.T) {
	served, err := join("one", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	peers := peerFlag{}
	if err := peers.Set("one=" + served.cluster.Addr()); err != nil {
		t.Fatal(err)
	}
	if err := one(t.Context(), "two", "127.0.0.1:0", peers, "one"); err != nil {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := one(ctx, "three", "127.0.0.1:0", nil, ""); err != nil {
		t.Error(err)
	}
	if err := served.close(); err != nil {
		t.Error(err)
	}
	if err := peers.Set("nonsense"); err == nil {
		t.Error("a peer without an address is taken")
	}
}
