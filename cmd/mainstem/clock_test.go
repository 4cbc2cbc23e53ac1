package main

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
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
	for _, command := range []string{"check", "stats"} {
		if out := must(t, command, "--log", srv.URL); strings.Contains(out, "clock") {
			t.Errorf("%s of a log with a right clock says %q", command, out)
		}
	}
	ahead.Store(int64(1000 * time.Hour))
	if out := must(t, "kv", "get", "users", "42", "--log", srv.URL); out != "Ada\n" {
		t.Errorf("after the jump the value is %q", out)
	}
	for _, command := range []string{"check", "clock", "stats"} {
		if out := must(t, command, "--log", srv.URL); !strings.Contains(out, "jumped forward by 1000h0m0s") {
			t.Errorf("%s does not show the jump: %q", command, out)
		}
	}
	for command, last := range map[string]string{"stats": `"total":true`, "check": `"ok":true`} {
		lines := strings.Split(strings.TrimSpace(must(t, command, "--json", "--log", srv.URL)), "\n")
		if n := len(lines); n < 2 || !strings.Contains(lines[n-2], `"held_seconds":3600000,`) || !strings.Contains(lines[n-1], last) {
			t.Errorf("%s does not show the jump before the last line: %q", command, lines)
		}
	}
	out := must(t, "clock", "accept", "--json", "--log", srv.URL)
	for _, want := range []string{`"held_seconds":3600000,`, `"jumps":1,`, `"now":"2030-`} {
		if !strings.Contains(out, want) {
			t.Errorf("accepting said %q, without %s", out, want)
		}
	}
	if r := run(t.Context(), nil, "kv", "get", "users", "42", "--log", srv.URL); r.status != cli.ExitNotFound {
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

// TestClockOfADatabase has the clock of a PostgreSQL server jump while a process has the
// log open. Commands look at the log without removing anything, and accept the clock for
// that process too.
func TestClockOfADatabase(t *testing.T) {
	url := testpostgres.FastDB(t)
	log, err := pglog.Open(t.Context(), url, &pglog.Options{SweepEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	must(t, "kv", "put", "users", "42", "Ada", "--ttl", "1h", "--log", url)
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	var tick string
	if err := c.QueryRow(t.Context(), "SELECT pg_get_functiondef('mainstem.tick'::regproc)").Scan(&tick); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), strings.Replace(tick, "clock_timestamp()", "(clock_timestamp() + interval '1000 hours')", 1)); err != nil {
		t.Fatal(err)
	}
	if err := log.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "clock", "stats"} {
		if out := must(t, command, "--log", url); !strings.Contains(out, "jumped forward by ") {
			t.Errorf("%s does not show the jump: %q", command, out)
		}
	}
	if out := must(t, "kv", "get", "users", "42", "--log", url); out != "Ada\n" {
		t.Errorf("after the jump the value is %q", out)
	}
	live := func() (n int) {
		for r, err := range log.Feed(t.Context(), mainstem.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Live() {
				n++
			}
		}
		return n
	}
	if n := live(); n != 1 {
		t.Errorf("after the jump the process that was there sees %d live records, want 1", n)
	}
	must(t, "clock", "accept", "--log", url)
	if n := live(); n != 0 {
		t.Errorf("after it was accepted the process that was there sees %d live records", n)
	}
	if r := run(t.Context(), nil, "kv", "get", "users", "42", "--log", url); r.status != cli.ExitNotFound {
		t.Errorf("after it was accepted: %+v", r)
	}
}

func TestClockOfALogThatDoesNotWatchIt(t *testing.T) {
	_, h := rpc.NewHandler(struct{ mainstem.Log }{startNode(t).Log()}, nil)
	srv := httptest.NewUnstartedServer(h)
	rpc.ConfigureServer(srv.Config)
	srv.Start()
	defer srv.Close()
	if r := run(t.Context(), nil, "clock", "accept", "--log", srv.URL); r.status != cli.ExitFailed || !strings.Contains(r.errors, "clock") {
		t.Errorf("%+v", r)
	}
}
