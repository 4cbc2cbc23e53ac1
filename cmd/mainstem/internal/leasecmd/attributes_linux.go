package leasecmd

import "syscall"

// attributes makes the command end with this process, even if that is killed, and the leader of a
// group if wanted.
func attributes(group bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group, Pdeathsig: syscall.SIGKILL}
}
