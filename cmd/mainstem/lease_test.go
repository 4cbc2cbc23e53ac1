package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
	"github.com/mainstemdev/mainstem/lease"
)

// holding is mainstem lease hold, in this process, with a command that runs until it is stopped.
type holding struct {
	pid  int
	done chan result
}

// startHold returns when the script says "holding PID". It is run by sh.
func startHold(ctx context.Context, t *testing.T, url, script string, flags ...string) *holding {
	t.Helper()
	out, in := io.Pipe()
	h := &holding{done: make(chan result, 1)}
	line := append([]string{"lease", "hold", "job", "--log", url}, append(flags, "--", "sh", "-c", script)...)
	go func() {
		r := run(ctx, func(m *cli.Main) { m.Stdout, m.Env = in, os.Environ() }, line...)
		in.Close()
		h.done <- r
	}()
	lines := bufio.NewReader(out)
	text, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %+v", err, <-h.done)
	}
	if h.pid, err = strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(text, "holding"))); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return h
}

// alive reports whether there is a process.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// TestCommandIsStoppedWhenItsLeaseIsLost: the server goes away. The TTL leaves a busy machine time to
// start the command before the lease is lost, and a fifth of it for the command to end in order.
func TestCommandIsStoppedWhenItsLeaseIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		status int
	}{
		"it stops":           {`echo holding $$; exec sleep 1000`, 128 + int(syscall.SIGTERM)},
		"it ends in order":   {`trap 'exit 0' TERM; echo holding $$; while :; do sleep 0.02; done`, cli.ExitFailed},
		"it does not listen": {`trap '' TERM; echo holding $$; while :; do sleep 0.02; done`, 128 + int(syscall.SIGKILL)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startNode(t)
			h := startHold(t.Context(), t, n.URL(), c.script, "--ttl", "10s", "--grace", "1h") // a fifth of the TTL, for the lease is lost
			if err := n.Stop(context.Background()); err != nil {
				t.Fatal(err)
			}
			r := <-h.done
			if r.status != c.status || !strings.Contains(r.errors, "the lease job was lost: the command was stopped") {
				t.Errorf("%+v, want status %d", r, c.status)
			}
			if alive(h.pid) {
				t.Error("the command still runs")
			}
		})
	}
}

// TestLeaseOfAServerThatIsGone: the log is waited for no longer than the lease.
func TestLeaseOfAServerThatIsGone(t *testing.T) {
	n := startNode(t)
	if err := n.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, wait := range [][]string{{"--wait", "100ms"}, {"--no-wait", "--ttl", "100ms"}} {
		r := run(t.Context(), nil, append(append([]string{"lease", "hold"}, wait...), "job", "--log", n.URL(), "--", "true")...)
		if r.status != cli.ExitFailed || !strings.Contains(r.errors, "mainstem: lease hold: unavailable: ") {
			t.Errorf("%v: %+v", wait, r)
		}
	}
}

// TestLeaseThatAnotherMemberHasTaken: its holder has not learned of that when the command ends, as after the machine was
// suspended.
func TestLeaseThatAnotherMemberHasTaken(t *testing.T) {
	n := startNode(t)
	file := filepath.Join(t.TempDir(), "end")
	h := startHold(t.Context(), t, n.URL(), `echo holding $$; while ! test -e `+file+`; do sleep 0.01; done`, "--ttl", "1h")
	const bucket = "mainstem/locks"
	members, _, err := lease.Read(t.Context(), n.Log(), bucket)
	if err != nil || len(members) != 1 {
		t.Fatalf("%d members, %v", len(members), err)
	}
	entries, err := kv.Open[[]byte](n.Log(), bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := entries.Delete(t.Context(), "member/"+members[0].Name); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := <-h.done; r.status != cli.ExitFailed || !strings.Contains(r.errors, "the lease job was lost while the command ran") {
		t.Errorf("%+v", r)
	}
}

// TestInterruptedHoldStopsTheWholeGroup, and gives the lease back.
func TestInterruptedHoldStopsTheWholeGroup(t *testing.T) {
	n := startNode(t)
	file := filepath.Join(t.TempDir(), "child")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	script := `sh -c 'trap "" TERM; echo $$ > ` + file + `; while :; do sleep 0.02; done' & while ! test -s ` + file + `; do sleep 0.01; done; echo holding $$; wait`
	h := startHold(ctx, t, n.URL(), script, "--ttl", "30s", "--grace", "1h") // which is never lost
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	cancel(cli.ErrInterrupted)
	if r := <-h.done; r.status != 128+int(syscall.SIGTERM) {
		t.Errorf("%+v", r)
	}
	if alive(h.pid) {
		t.Error("the command still runs")
	}
	testkit.Eventually(t, "the child that does not listen has ended", func() bool { return !alive(child) || isZombie(child) })
	if r := run(t.Context(), nil, "lease", "hold", "job", "--no-wait", "--log", n.URL(), "--", "true"); r.status != cli.ExitOK {
		t.Errorf("the lease was not given back: %+v", r)
	}
}

// isZombie reports whether a process has ended, and nobody has waited for it: it is not a child of this one.
func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
