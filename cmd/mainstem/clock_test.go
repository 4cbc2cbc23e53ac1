package main

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// TestClockOfAServer has the clock of a server jump, and lets the command line say so and
// accept it.
func TestClockOfAServer(t *testing.T) {
	var ahead atomic.Int64
	dir := filepath.Join(t.TempDir(), "data")
	log, err := pebblelog.Open(dir, &pebblelog.Options{
		Now:       func() time.Time { return time.Unix(1_900_000_000, 0).Add(time.Duration(ahead.Load())) },
		Monotonic: func() time.Duration { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	_, h := rpc.NewHandler(log, nil)
	srv := httptest.NewUnstartedServer(h)
	rpc.ConfigureServer(srv.Config)
	srv.Start()
	stop := func() {
		srv.Close()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
	must(t, "kv", "put", "users", "42", "Ada", "--ttl", "1h", "--log", srv.URL)
	if out := must(t, "check", "--log", srv.URL); strings.Contains(out, "clock") {
		t.Errorf("check of a log with a right clock says %q", out)
	}
	ahead.Store(int64(1000 * time.Hour))
	if out := must(t, "kv", "get", "users", "42", "--log", srv.URL); out != "Ada\n" {
		t.Errorf("after the jump the value is %q", out)
	}
	for _, command := range []string{"check", "clock"} {
		if out := must(t, command, "--log", srv.URL); !strings.Contains(out, "jumped forward by 1000h0m0s") {
			t.Errorf("%s does not show the jump: %q", command, out)
		}
	}
	out := must(t, "clock", "accept", "--json", "--log", srv.URL)
	for _, want := range []string{`"held_seconds":3600000,`, `"jumps":1,`, `"now":"2030-`} {
		if !strings.Contains(out, want) {
			t.Errorf("accepting said %q, without %s", out, want)
		}
	}
	if r := run(t.Context(), nil, "kv", "get", "users", "42", "--log", srv.URL); r.status != exitNotFound {
		t.Errorf("after it was accepted: %+v", r)
	}
	if out := must(t, "clock", "--log", srv.URL); strings.Contains(out, "jumped") || !strings.HasPrefix(out, "now\t2030-") {
		t.Errorf("after it was accepted the clock is %q", out)
	}
	stop()
	// This directory's newest record is years ahead of the clock of this machine.
	if out := must(t, "check", "--log", dir); !strings.Contains(out, " ahead: the clock was ahead") {
		t.Errorf("check of a directory from the future says %q", out)
	}
}

func TestClockOfALogThatDoesNotWatchIt(t *testing.T) {
	_, h := rpc.NewHandler(struct{ mainstem.Log }{startNode(t).Log()}, nil)
	srv := httptest.NewUnstartedServer(h)
	rpc.ConfigureServer(srv.Config)
	srv.Start()
	defer srv.Close()
	if r := run(t.Context(), nil, "clock", "accept", "--log", srv.URL); r.status != exitFailed || !strings.Contains(r.errors, "clock") {
		t.Errorf("%+v", r)
	}
}
