package target

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mainstemdev/mainstem/interop/kafka/freeport"
)

// startPatience bounds how long a server takes to say that it is ready, and
// stopPatience how long to stop.
const (
	startPatience = 30 * time.Second
	stopPatience  = 30 * time.Second
)

var program struct {
	once sync.Once
	path string
	err  error

	given bool // not ours to delete
}

// Use makes Program return a program that is built already.
func Use(path string) {
	if path != "" {
		program.once.Do(func() { program.path, program.given = path, true })
	}
}

// Program builds cmd/mainstem and returns the path of the program. It stays in
// the temporary directory: tests of one binary share it.
func Program() (string, error) {
	program.once.Do(func() {
		_, here, _, _ := runtime.Caller(0)
		root := filepath.Join(filepath.Dir(here), "..", "..", "..")
		var dir string
		if dir, program.err = os.MkdirTemp("", "mainstem-interop-"); program.err != nil {
			return
		}
		program.path = filepath.Join(dir, "mainstem")
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", program.path, "./cmd/mainstem")
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			program.err = fmt.Errorf("build %s: %w\n%s", root, err, out)
		}
	})
	return program.path, program.err
}

// Remove deletes the program, if it was built. TestMain calls it at the end.
func Remove() {
	if program.path != "" && !program.given {
		_ = os.RemoveAll(filepath.Dir(program.path))
	}
}

// Process is a server in a process of its own, with a directory of its own.
type Process struct {
	Kafka string // address of the Kafka listener
	URL   string // of the HTTP server
	Dir   string // of the log

	args   []string
	cmd    *exec.Cmd
	output lockedBuffer
}

// NewProcess chooses ports, and adds args to the command line.
func NewProcess(dir string, args ...string) (*Process, error) {
	kafka, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	http, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &Process{Dir: dir, Kafka: kafka, URL: "http://" + http}
	p.args = append([]string{"serve", "--log", dir, "--listen", http, "--kafka", kafka}, args...)
	return p, nil
}

// FreeAddress returns an address of loopback where nobody listens right now, and that nobody else
// gets from it until this process ends.
func FreeAddress() (string, error) { return freeport.Address() }

// Start starts the server and returns when it says that it is ready.
func (p *Process) Start() error {
	path, err := Program()
	if err != nil {
		return err
	}
	p.cmd = exec.Command(path, p.args...)
	p.cmd.Env = []string{"HOME=" + os.TempDir(), "PATH=" + os.Getenv("PATH")}
	p.cmd.Stderr = &p.output
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	ready := make(chan error, 2)
	go func() { // ends with the process
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(&p.output, lines.Text())
			if strings.HasPrefix(lines.Text(), "mainstem: serving") {
				ready <- nil
			}
		}
		ready <- errors.New("it ended")
	}()
	late := time.NewTimer(startPatience)
	defer late.Stop()
	select {
	case err = <-ready:
	case <-late.C:
		err = fmt.Errorf("it was not ready after %v", startPatience)
	}
	if err != nil {
		return fmt.Errorf("start the server: %w\n%s", err, p.Output())
	}
	return nil
}

// Pid is the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Output is the end of what the server has written so far.
func (p *Process) Output() string {
	const enough = 4 << 10
	text := p.output.String()
	return text[max(0, len(text)-enough):]
}

// Kill ends the process as kill -9 does.
func (p *Process) Kill() error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the server: %w", err)
	}
	_ = p.cmd.Wait() // reports the signal
	p.cmd = nil
	return nil
}

// Stop asks the process to end. A process that does not end in time is made to
// show its goroutines.
func (p *Process) Stop() error {
	if p.cmd == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(stopPatience, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
	defer late.Stop()
	err := p.cmd.Wait()
	p.cmd = nil
	if err != nil {
		return fmt.Errorf("stop the server: %w\n%s", err, p.Output())
	}
	return nil
}

// Run runs a command of the program against the server and returns what it printed.
func (p *Process) Run(ctx context.Context, args ...string) (string, error) {
	return Command(ctx, append(args, "--log", p.URL)...)
}

// Command runs a command of the program.
func Command(ctx context.Context, args ...string) (string, error) {
	path, err := Program()
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("mainstem %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// lockedBuffer collects what two pipes say.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
