package interop

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves an empty log in memory until the test ends and returns its address.
func serve(t *testing.T, o *rpc.Options) string {
	t.Helper()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	path, handler := rpc.NewHandler(log, o)
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	mux.Handle(rpc.SessionPath, handler)
	server := httptest.NewUnstartedServer(mux)
	rpc.ConfigureServer(server.Config)
	server.Start()
	t.Cleanup(func() {
		if err := handler.Close(); err != nil {
			t.Errorf("close the handler: %v", err)
		}
		server.Close()
		if err := log.Close(); err != nil {
			t.Errorf("close the log: %v", err)
		}
	})
	return server.Listener.Addr().String()
}

// dial returns a gRPC client without TLS, closed before the server stops.
func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return c
}

// method returns the full name of a method of the service.
func method(name string) string { return "/mainstem.v1.LogService/" + name }
