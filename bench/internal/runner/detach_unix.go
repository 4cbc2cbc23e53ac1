//go:build unix

package runner

import (
	"os/exec"
	"syscall"
)

// detach keeps the signals of the terminal from a process: an interrupt ends the
// bench, which then ends its processes.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
