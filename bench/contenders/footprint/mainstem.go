package footprint

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/engine/remotelog"

	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/footprint"
)

// module is the module of the program, which the bench is nested in.
const module = "github.com/mainstemdev/mainstem"

// mainstem is `mainstem serve` with its defaults, but for the durability.
func mainstem(d suite.Durability) footprint.Factory {
	return footprint.Factory{
		Name: "mainstem-server-" + string(d), Durability: d, Transport: suite.LoopbackTCP,
		Note: "mainstem serve on a directory, with its HTTP and Kafka listeners; where compaction is waited for, with a memtable of 1 MiB",
		Skip: func(*suite.Env) string {
			if _, err := exec.LookPath("go"); err != nil {
				return "no go command to build the program with: " + err.Error()
			}
			return ""
		},
		Build: build,
		Start: func(ctx context.Context, program string, o footprint.Options) (footprint.Server, error) {
			return start(ctx, program, d, o)
		},
	}
}

// build builds the program into the user's cache, where the next one finds it: the go
// command does nothing if it is up to date.
func build(ctx context.Context) (string, error) {
	dir, err := command(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", suite.Skipf("the program is built from its source: run the bench in the repository (%v)", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "mainstem-bench", "mainstem")
	_, err = command(ctx, "go", "build", "-C", strings.TrimSpace(dir), "-o", path, "./cmd/mainstem")
	return path, err
}

func command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, problems.Bytes())
	}
	return string(out), nil
}

// server is the process, and what asks it.
type server struct {
	cmd    *exec.Cmd
	output output
	kafka  string
	log    *remotelog.Log
	stop   sync.Once
	ended  error
}

// ready is the line that the server prints when it serves.
type ready struct {
	Event string `json:"event"`
	URL   string `json:"url"`
	Kafka string `json:"kafka"`
}

func start(ctx context.Context, program string, d suite.Durability, o footprint.Options) (*server, error) {
	args := []string{"serve", "--json", "--log", o.Dir, "--durability", string(d), "--listen", "127.0.0.1:0", "--kafka", "127.0.0.1:0"}
	if o.Compact {
		args = append(args, "--memtable", "1MiB", "--sweep-every", "500ms")
	}
	s := &server{cmd: exec.Command(program, args...)} // the process outlives ctx; Stop ends it
	s.cmd.Env = environment(o.Pauses)
	s.cmd.Stderr = &s.output
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	kill := context.AfterFunc(ctx, func() { _ = s.cmd.Process.Kill() }) // then the read below ends
	line, err := bufio.NewReader(out).ReadBytes('\n')
	kill()
	var r ready
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err == nil {
		s.kafka = r.Kafka
		s.log, err = remotelog.Open(r.URL, &remotelog.Options{Transport: remotelog.Sessions})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mainstem serve: %w\n%s", err, s.output.text()), context.Cause(ctx), s.Stop())
	}
	return s, nil
}

// environment is that of the bench without what would change the server's settings.
func environment(trace bool) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MAINSTEM_") && !strings.HasPrefix(v, "GODEBUG=") {
			env = append(env, v)
		}
	}
	if trace {
		env = append(env, "GODEBUG=gctrace=1")
	}
	return env
}

// stopWait is how long the process may take to end when it is told to.
const stopWait = 30 * time.Second

func (s *server) PID() int { return s.cmd.Process.Pid }

func (s *server) Pauses() []time.Duration {
	pauses, err := footprint.ParsePauses(strings.NewReader(s.output.text()))
	if err != nil {
		return nil
	}
	return pauses
}

func (s *server) Stop() error {
	s.stop.Do(func() {
		var closing error
		if s.log != nil {
			closing = s.log.Close()
		}
		if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
			_ = s.cmd.Process.Kill() // it has ended, or this system has no such signal
		}
		late := time.AfterFunc(stopWait, func() { _ = s.cmd.Process.Kill() })
		defer late.Stop()
		if err := s.cmd.Wait(); err != nil {
			s.ended = fmt.Errorf("mainstem serve: %w\n%s", err, s.output.text())
		}
		s.ended = errors.Join(closing, s.ended)
	})
	return s.ended
}

// output is what the process says to people, and the trace of its collector.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
