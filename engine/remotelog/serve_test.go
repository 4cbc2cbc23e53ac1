package remotelog_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/wire/rpc"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// server is a running RPC server for one log.
type server struct {
	*httptest.Server
	handler *rpc.Handler
}

// serve serves log until the test ends. The log stays open.
func serve(t testing.TB, log mainstem.Log, o *rpc.Options) *server {
	t.Helper()
	path, h := rpc.NewHandler(log, o)
	mux := http.NewServeMux()
	mux.Handle(path, h)
	mux.Handle(rpc.SessionPath, h)
	s := &server{httptest.NewUnstartedServer(mux), h}
	rpc.ConfigureServer(s.Config)
	s.Start()
	t.Cleanup(s.stop)
	return s
}

// stop ends the server as a program would.
func (s *server) stop() {
	_ = s.handler.Close()
	s.Close()
}

// open returns a client of the server at url, closed when the test ends.
func open(t testing.TB, url string, o *remotelog.Options) *remotelog.Log {
	t.Helper()
	log, err := remotelog.Open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}
