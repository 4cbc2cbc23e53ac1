package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// The hidden commands by which the program is started again.
const (
	ContenderCommand = "contender-process"
	ServerCommand    = "server-process"
)

const (
	lastWords    = 2 << 10 // bytes of standard error that a failure quotes
	stopPatience = 5 * time.Second
)

// Process runs entries in a process of their own.
type Process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies chan reply // closed when no more can come
	stderr  tail
	ended   chan struct{} // closed when the process has ended and stderr has all that it said
}

// Launch starts program, a build of the bench, as the process of a contender.
func Launch(ctx context.Context, program string) (*Process, error) {
	p := &Process{replies: make(chan reply), ended: make(chan struct{})}
	p.cmd = exec.Command(program, ContenderCommand)
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = stopPatience // for those that it started and left behind
	detach(p.cmd)
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(out)
	hello, err := p.receive(ctx)
	if err == nil && hello.Version != protocolVersion {
		err = &Failure{Skip: true, Reason: fmt.Sprintf("its build speaks version %d of the bench's protocol, not %d", hello.Version, protocolVersion)}
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// read passes on what the process writes, then waits for its end. A process that writes
// what is no reply is killed: nothing that it says afterwards can be read.
func (p *Process) read(out io.Reader) {
	defer close(p.ended)
	for d := json.NewDecoder(out); ; {
		var r reply
		if err := d.Decode(&r); err != nil {
			if !errors.Is(err, io.EOF) {
				_ = p.cmd.Process.Kill() // an error says that it has ended
			}
			break
		}
		p.replies <- r
	}
	close(p.replies)
	_, _ = io.Copy(io.Discard, out)
	_ = p.cmd.Wait() // its status says less than its standard error
}

func (p *Process) receive(ctx context.Context) (reply, error) {
	select {
	case r, ok := <-p.replies:
		if !ok {
			return reply{}, p.death(ctx)
		}
		if r.Failure != nil {
			return r, r.Failure
		}
		return r, nil
	case <-ctx.Done():
		return reply{}, &Failure{Reason: context.Cause(ctx).Error(), Broken: true}
	}
}

func (p *Process) call(ctx context.Context, r request) (reply, error) {
	if err := json.NewEncoder(p.in).Encode(r); err != nil {
		return reply{}, p.death(ctx)
	}
	return p.receive(ctx)
}

// death returns the failure of a process that reads and writes no more. It waits for the end, or
// for ctx: only then has everything come that the process wrote to standard error.
func (p *Process) death(ctx context.Context) *Failure {
	for replies := p.replies; ; {
		select {
		case _, ok := <-replies: // of no use: what asked for it has failed
			if !ok {
				replies = nil
			}
			continue
		case <-p.ended:
		case <-ctx.Done():
		}
		return &Failure{Reason: "its process ended: " + p.stderr.String(), Broken: true}
	}
}

// Open starts an entry; see [Executor].
func (p *Process) Open(ctx context.Context, o Opening) error {
	_, err := p.call(ctx, request{Open: &o})
	return err
}

// Round does one round; see [Executor].
func (p *Process) Round(ctx context.Context, a Assignment) (Measured, error) {
	r, err := p.call(ctx, request{Round: &a})
	if err != nil {
		return Measured{}, err
	}
	if r.Measured == nil {
		return Measured{}, &Failure{Reason: "its process answered without a measurement", Broken: true}
	}
	return *r.Measured, nil
}

// Shut closes the open entry; see [Executor].
func (p *Process) Shut(ctx context.Context) error {
	_, err := p.call(ctx, request{Shut: true})
	return err
}

// Close lets the process end by itself for a while and then kills it.
func (p *Process) Close() error {
	go func() {
		for range p.replies { // nobody waits for them any more
		}
	}()
	return stopProcess(p.cmd, p.in, p.ended)
}

// SpawnServer starts a server of the suites in a process of its own; see
// [suite.Env].Spawn.
func SpawnServer(ctx context.Context, name, dir string) (address string, stop func() error, err error) {
	return spawnServer(ctx, name, dir, new(tail))
}

// spawnServer keeps in stderr what the server says.
func spawnServer(ctx context.Context, name, dir string, stderr *tail) (address string, stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(self, ServerCommand, name, dir)
	cmd.Stderr = stderr
	cmd.WaitDelay = stopPatience
	detach(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	lines := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n') // without one it has failed
		lines <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, r)
		_ = cmd.Wait()
	}()
	stop = sync.OnceValue(func() error { return stopProcess(cmd, in, ended) })
	select {
	case address = <-lines:
	case <-ctx.Done():
	}
	if address == "" {
		stopped := stop() // first: then stderr has all that it said
		return "", nil, errors.Join(fmt.Errorf("server %s did not start: %s", name, stderr.String()), ctx.Err(), stopped)
	}
	return address, stop, nil
}

func stopProcess(cmd *exec.Cmd, in io.Closer, ended <-chan struct{}) error {
	_ = in.Close()
	patience := time.NewTimer(stopPatience)
	defer patience.Stop()
	select {
	case <-ended:
		return nil
	case <-patience.C:
		err := cmd.Process.Kill()
		<-ended
		if errors.Is(err, os.ErrProcessDone) { // it ended by itself just now
			return nil
		}
		return err
	}
}

// tail keeps the last bytes that are written to it.
type tail struct {
	mu struct {
		sync.Mutex
		bytes []byte
	}
}

// Write keeps the end of b.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.bytes = append(t.mu.bytes, b...)
	if extra := len(t.mu.bytes) - lastWords; extra > 0 {
		t.mu.bytes = t.mu.bytes[extra:]
	}
	return len(b), nil
}

// String returns what was kept.
func (t *tail) String() string {
	if said := t.said(); said != "" {
		return said
	}
	return "it said nothing"
}

// said returns what was kept, "" if it was nothing.
func (t *tail) said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.mu.bytes), "?"))
}
