package testkit_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/internal/testkit"
)

// dirVariable makes this binary a process of TestProcesses: it leaves a file there.
const dirVariable = "TESTKIT_PROCESS_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVariable); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(os.Getpid())), nil, 0o600); err != nil {
			os.Exit(1)
		}
		testkit.UntilParentEnds()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Each process has begun before it is killed, and none is left.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	begun := 0
	p := testkit.Processes{Env: dirVariable + "=" + dir, Lives: 3, Longest: 10 * time.Millisecond, Begun: func(pid int) bool {
		_, err := os.Stat(filepath.Join(dir, strconv.Itoa(pid)))
		if err == nil {
			begun++
		}
		return err == nil
	}}
	if killed := p.Run(t, t.Context()); killed != 3 || begun != 3 {
		t.Errorf("%d were killed, %d had begun, want 3", killed, begun)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if p.Lives = 0; p.Run(t, ended) != 0 {
		t.Error("a process was started after the end")
	}
}
