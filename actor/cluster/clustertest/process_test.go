package clustertest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// process is a node that runs in a process of its own.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr tail
	once   sync.Once
}

// tail keeps the last of what a process writes.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 8 << 10

func (s *tail) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b...)
	if len(s.text) > tailBytes {
		s.text = append(s.text[:0:0], s.text[len(s.text)-tailBytes:]...)
	}
	return len(b), nil
}

func (s *tail) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

// start runs a node, with the words of wrap before its command, and returns when it is there.
func start(t *testing.T, s setup, wrap ...string) *process {
	t.Helper()
	args, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, name: s.Name}
	words := append(wrap, self(t))
	p.cmd = exec.Command(words[0], words[1:]...)
	p.cmd.Env = append(os.Environ(), childVariable+"=node "+string(args))
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	var there response
	if err := p.out.Decode(&there); err != nil {
		t.Fatalf("node %s did not start: %v\n%s", s.Name, err, &p.stderr)
	}
	return p
}

// self returns the test binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// kill ends the process at once.
func (p *process) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if p.t.Failed() {
			p.t.Logf("node %s said at last:\n%s", p.name, &p.stderr)
		}
	})
}

// do sends the node a task, and returns its answer.
func (p *process) do(q request) response {
	p.t.Helper()
	line, err := json.Marshal(q)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	var r response
	if err == nil {
		err = p.out.Decode(&r)
	}
	if err == nil && r.Error != "" {
		err = fmt.Errorf("%s", r.Error)
	}
	if err != nil {
		p.t.Fatalf("node %s: %s: %v\n%s", p.name, q.Do, err, &p.stderr)
	}
	return r
}

// judge checks what a counter has seen against what was sent and acknowledged:
// nothing twice, nothing out of order, all that was acknowledged; of senders in
// whole, whose messages no node could drop, all that was sent.
func judge(t *testing.T, sent map[string]int, acked, seen map[string][]int, whole bool) (counted, acknowledged int) {
	t.Helper()
	for from, ns := range seen {
		for i := 1; i < len(ns); i++ {
			if ns[i] <= ns[i-1] {
				t.Errorf("%s: %d was counted after %d", from, ns[i], ns[i-1])
			}
		}
		counted += len(ns)
	}
	for from, ns := range acked {
		there := make(map[int]bool)
		for _, n := range seen[from] {
			there[n] = true
		}
		for _, n := range ns {
			if !there[n] {
				t.Errorf("%s: %d was acknowledged and not counted", from, n)
			}
		}
		acknowledged += len(ns)
	}
	for from, n := range sent {
		if whole && strings.HasSuffix(from, " tells") && len(seen[from]) != n {
			t.Errorf("%s: %d of %d arrived", from, len(seen[from]), n)
		}
	}
	return counted, acknowledged
}
