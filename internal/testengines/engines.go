package testengines

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// engines are in the order in which they are tried: the quickest first.
var engines = []engine{
	{"memory", func(t testing.TB, large bool) mainstem.Log { return memory(t, large) }},
	{"model", func(testing.TB, bool) mainstem.Log { return model.New(nil) }},
	{"directory", directory},
	{"remote", remote},
	{"nats", overNATS},
	{"postgres", onPostgres},
}

// servers are the engines that need a server of others, which takes time to start.
var servers = []string{"nats", "postgres"}

func memory(t testing.TB, large bool) *pebblelog.Log {
	t.Helper()
	// A tiny memtable and head cache: data moves to sorted files within a test.
	opts := &pebblelog.Options{MemTableBytes: 256 << 10, KeyStateCache: 8}
	if large {
		opts = nil
	}
	log, err := pebblelog.OpenMemory(opts)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func directory(t testing.TB, _ bool) mainstem.Log {
	t.Helper()
	log, err := pebblelog.Open(t.TempDir(), &pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// Serve serves a log in memory on a loopback port until the test ends, for processes of the test too, and returns
// it with its URL.
func Serve(t testing.TB) (mainstem.Log, string) {
	t.Helper()
	log := memory(t, false)
	url, end := serve(log)
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return log, url
}

// serve serves log, which end closes too.
func serve(log *pebblelog.Log) (url string, end func() error) {
	path, handler := rpc.NewHandler(log, nil)
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	mux.Handle(rpc.SessionPath, handler)
	server := httptest.NewUnstartedServer(mux)
	rpc.ConfigureServer(server.Config)
	server.Start()
	return server.URL, func() error {
		err := handler.Close()
		server.Close()
		return errors.Join(err, log.Close())
	}
}

// remote is a connection to a served log in memory.
func remote(t testing.TB, large bool) mainstem.Log {
	t.Helper()
	url, end := serve(memory(t, large))
	log, err := remotelog.Open(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &serverAndLog{Log: log, end: end}
}

// serverAndLog is a connection that ends its server with itself.
type serverAndLog struct {
	*remotelog.Log
	end func() error
}

// Close implements [mainstem.Log].
func (s *serverAndLog) Close() error { return errors.Join(s.Log.Close(), s.end()) }

// overNATS starts a NATS server of its own, with a stream in memory; a large one is in files. The
// server counts the messages before or after those of each request, one by one if they are in memory.
func overNATS(t testing.TB, large bool) mainstem.Log {
	t.Helper()
	log, err := natslog.Open(testnats.NewServer(t, nil).URL(), &natslog.Options{Memory: !large})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// onPostgres makes a database of its own, on a server that all tests of a process share.
func onPostgres(t testing.TB, _ bool) mainstem.Log {
	t.Helper()
	log, err := pglog.Open(t.Context(), testpostgres.FastDB(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	return log
}
