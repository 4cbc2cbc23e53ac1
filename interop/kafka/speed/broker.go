package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"golang.org/x/sys/unix"

	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

// broker is a process that clients connect to.
type broker struct {
	address string
	pid     int
	stop    func()
	// chill stops the server, lets the system forget its files and starts it again.
	// nil where nothing is on disk.
	chill func() error
}

func start(ctx context.Context, o *options, name string) (*broker, error) {
	if name == "kfake" {
		return startFake(ctx)
	}
	dir, err := os.MkdirTemp(o.dir, "mainstem-speed-")
	if err != nil {
		return nil, err
	}
	p, err := target.NewProcess(filepath.Join(dir, "log"), o.args...)
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		return nil, err
	}
	b := &broker{address: p.Kafka, pid: p.Pid()}
	b.stop = func() {
		_ = p.Stop()
		_ = os.RemoveAll(dir)
	}
	b.chill = func() error {
		if err := p.Stop(); err != nil {
			return err
		}
		if err := forget(p.Dir); err != nil {
			return err
		}
		if err := p.Start(); err != nil {
			return err
		}
		b.pid = p.Pid()
		return nil
	}
	return b, nil
}

// forget drops what the system keeps of the files below dir in memory.
func forget(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Sync(); err != nil { // dirty pages stay otherwise
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}

// startFake runs this program again as kfake.
func startFake(ctx context.Context) (*broker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-kfake")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("start kfake: %w", err)
	}
	return &broker{address: strings.TrimSpace(line), pid: cmd.Process.Pid, stop: func() {
		_ = in.Close()
		_ = cmd.Wait()
	}}, nil
}

// serveFake is kfake until standard input ends.
func serveFake(ctx context.Context) error {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println(c.ListenAddrs()[0])
	ended := make(chan struct{})
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

// rss returns the resident memory of the broker in MB (10^6 bytes).
func (b *broker) rss() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", b.pid)
}

// cpu returns how long the broker has computed so far.
func (b *broker) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.pid))
	if err != nil {
		return 0, err
	}
	// The name of the program, in parentheses, may hold spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
