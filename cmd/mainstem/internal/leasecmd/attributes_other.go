//go:build !linux

package leasecmd

import "syscall"

// attributes makes the command the leader of a group if wanted.
func attributes(group bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: group} }
