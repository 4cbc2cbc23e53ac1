// Package machine says where and of what a measurement was taken: processor,
// memory, kernel, filesystem, versions and commit.
//
// What cannot be found out is "unknown": a description is no reason to fail a run.
package machine

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem/bench/internal/result"
)

const unknown = "unknown"

// Describe returns the machine, with the filesystem that holds dir.
func Describe(dir string) result.Machine {
	return result.Machine{
		CPU:        cpu(),
		Cores:      runtime.GOMAXPROCS(0),
		Memory:     memory(),
		OS:         runtime.GOOS,
		Arch:       runtime.GOARCH,
		Kernel:     kernel(),
		Filesystem: filesystem(dir),
	}
}

// field returns the value of the first line "name: value" of a file of /proc.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		key, value, ok := strings.Cut(s.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Resident returns the resident memory of this process in bytes, 0 where the system does not say.
func Resident() uint64 { return kibibytes("VmRSS") }

// Anonymous returns what of the resident memory is no page of a file, such as of the program itself,
// in bytes, 0 where the system does not say.
func Anonymous() uint64 { return kibibytes("RssAnon") }

func kibibytes(name string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSuffix(field("/proc/self/status", name), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

func cpu() string {
	if name := field("/proc/cpuinfo", "model name"); name != "" {
		return name
	}
	if name := sysctl("machdep.cpu.brand_string"); name != "" {
		return name
	}
	return unknown
}

func memory() int64 {
	if kib, ok := strings.CutSuffix(field("/proc/meminfo", "MemTotal"), " kB"); ok {
		n, _ := strconv.ParseInt(kib, 10, 64) // 0 is "unknown"
		return n << 10
	}
	n, _ := strconv.ParseInt(sysctl("hw.memsize"), 10, 64)
	return n
}

func kernel() string {
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		return strings.TrimSpace(string(b))
	}
	if v := sysctl("kern.osrelease"); v != "" {
		return v
	}
	return unknown
}

func sysctl(name string) string {
	if runtime.GOOS == "linux" {
		return ""
	}
	out, err := exec.Command("sysctl", "-n", name).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// filesystem returns the type of the mount that holds dir, the longest that is a
// parent of it.
func filesystem(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return unknown
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return unknown
	}
	defer f.Close()
	found, longest := unknown, -1
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 3 {
			continue
		}
		at := fields[1]
		if (dir == at || at == "/" || strings.HasPrefix(dir, at+"/")) && len(at) >= longest {
			found, longest = fields[2], len(at)
		}
	}
	return found
}

// Build describes this program.
func Build(ctx context.Context) result.Build {
	b := result.Build{Go: runtime.Version(), Modules: map[string]string{}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" && m.Version != "(devel)" {
			b.Modules[m.Path] = m.Version
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Changed = s.Value == "true"
		}
	}
	if b.Commit == "" {
		b.Commit, b.Changed = commit(ctx)
	}
	return b
}

// commit asks git, for programs that were built without the stamp: those of go run.
func commit(ctx context.Context) (hash string, changed bool) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "", false
	}
	status, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no").Output()
	return strings.TrimSpace(string(out)), err != nil || len(status) > 0
}
