//go:build unix

package testpostgres

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that servers run as.
type account struct {
	other    bool // not the user of this process
	uid, gid int
}

// serverAccount returns the user of this process, or if that is root, another one.
func serverAccount() (account, error) {
	if os.Getuid() != 0 {
		return account{uid: os.Getuid(), gid: os.Getgid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil && uid != 0 {
			return account{true, uid, gid}, nil
		}
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody to run it as")
}

// own gives path to the account.
func (a account) own(path string) error {
	if !a.other {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// command makes a command that runs as the account, in a process group of its own, so
// that what interrupts the tests does not reach it.
func (a account) command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a.other {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return cmd
}

// watchdog runs a shell that stops the process pid and removes dir as soon as this
// process is gone. The function it returns ends it.
func watchdog(pid int, dir string) (stop func() error, err error) {
	const script = `cat >/dev/null; kill -QUIT "$1" 2>/dev/null; for i in 1 2 3 4 5; do kill -0 "$1" 2>/dev/null || break; sleep 1; done; rm -rf "$2"`
	cmd := exec.Command("/bin/sh", "-c", script, "watchdog", strconv.Itoa(pid), dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error {
		// The whole group: cat must not outlive its shell, nor see its input end first.
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
		_ = alive.Close()
		return err
	}, nil
}
