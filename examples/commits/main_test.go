package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/internal/testport"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
	"github.com/mainstemdev/mainstem/server"
)

const file = "testdata/commits.jsonl"

// TestMain lets the test binary play the program, or a server, so that they can
// be killed.
func TestMain(m *testing.M) {
	var err error
	switch log := os.Getenv("COMMITS_TEST_LOG"); os.Getenv("COMMITS_TEST_ROLE") {
	case "import":
		err = run(context.Background(), log, file)
	case "serve":
		err = serve(log, os.Getenv("COMMITS_TEST_LISTEN"))
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(dir, listen string) error {
	c := server.DefaultConfig()
	c.Log, c.Listen = dir, listen
	n, err := server.Open(context.Background(), c)
	if err != nil {
		return err
	}
	if err := n.Start(context.Background()); err != nil {
		return err
	}
	return <-n.Failed()
}

// play starts this binary in a role.
func play(t *testing.T, role, log, listen string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "COMMITS_TEST_ROLE="+role, "COMMITS_TEST_LOG="+log, "COMMITS_TEST_LISTEN="+listen)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &out
}

// count counts the file without any of the program's code: by the words of the lines.
func count(t *testing.T) result {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := result{Streams: map[string]int{}, Directories: map[string]int64{}, Keys: map[string]int{}}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var fields map[string]any
		if err := json.Unmarshal(lines.Bytes(), &fields); err != nil {
			t.Fatal(err)
		}
		author := fields["author"].(string)
		r.Events++
		r.Messages++
		r.Streams["author-"+author]++
		r.Keys[author]++
		for _, dir := range fields["dirs"].([]any) {
			r.Directories[dir.(string)]++
		}
	}
	if r.Events != 2819 || len(r.Streams) != 134 {
		t.Fatalf("the file has %d commits of %d authors, want 2819 of 134", r.Events, len(r.Streams))
	}
	return r
}

func verify(t *testing.T, target string) {
	t.Helper()
	log, err := server.OpenLog(t.Context(), target, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	got, err := answers(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(count(t), got); diff != "" {
		t.Errorf("the views differ from the file (-file +views):\n%s", diff)
	}
}

func TestImport(t *testing.T) {
	for engine, target := range map[string]func(t *testing.T) string{
		"pebblelog": func(t *testing.T) string { return t.TempDir() },
		"natslog":   func(t *testing.T) string { return testnats.NewServer(t, nil).URL() },
		"pglog":     func(t *testing.T) string { return testpostgres.FastDB(t) },
	} {
		t.Run(engine, func(t *testing.T) {
			log := target(t)
			for range 2 { // the second time nothing is left to do
				if err := run(t.Context(), log, file); err != nil {
					t.Fatal(err)
				}
				verify(t, log)
			}
		})
	}
}

// TestKilled kills the program at random moments until it gets through. One that gets through before
// the first kill begins again with another directory.
func TestKilled(t *testing.T) {
	testkit.Eventually(t, "the program is killed", func() bool { return killed(t, t.TempDir()) > 0 })
}

// killed kills an import into dir until it gets through, and returns how often.
func killed(t *testing.T, dir string) (kills int) {
	t.Helper()
	for {
		cmd, out := play(t, "import", dir, "")
		timer := time.AfterFunc(moment(kills), func() { cmd.Process.Kill() })
		err := cmd.Wait()
		if timer.Stop(); err == nil {
			break
		}
		if !strings.Contains(err.Error(), "killed") {
			t.Fatalf("%v: %s", err, out)
		}
		kills++
	}
	t.Logf("killed %d times", kills)
	verify(t, dir)
	return kills
}

// TestServerKilled kills the server under the program, again and again.
func TestServerKilled(t *testing.T) {
	dir, listen := t.TempDir(), testport.Address(t)
	child, _ := play(t, "serve", dir, listen)
	client, out := play(t, "import", "http://"+listen, "")
	done := make(chan error, 1)
	go func() { done <- client.Wait() }()
	for kills := 0; ; kills++ {
		select {
		case err := <-done:
			child.Process.Kill()
			child.Wait()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("killed %d times", kills)
			verify(t, dir)
			return
		case <-time.After(moment(kills)):
			child.Process.Kill()
			child.Wait()
			child, _ = play(t, "serve", dir, listen)
		}
	}
}

// moment returns how long a process may live before its next kill: longer each
// time, so that a slow machine gets through too.
func moment(kills int) time.Duration {
	return time.Duration(100+rand.IntN(400)+kills*kills*50) * time.Millisecond
}
