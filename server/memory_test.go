package server

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMachineMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"unknown":               {nil, 0},
		"machine":               {map[string]string{"proc/meminfo": "MemTotal:       2048 kB\nMemFree: 1 kB\n"}, 2048 << 10},
		"version 1":             {map[string]string{"proc/meminfo": "MemTotal: 2048 kB\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "4096\n"}, 4096},
		"version 1 without":     {map[string]string{"proc/meminfo": "MemTotal: 2048 kB\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 2048 << 10},
		"version 2":             {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "8192\n"}, 8192},
		"version 2 without":     {map[string]string{"proc/meminfo": "MemTotal: 2048 kB\n", "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 2048 << 10},
		"version 2, some above": {map[string]string{"proc/self/cgroup": "1:name=systemd:/x\n0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "4096\n"}, 4096},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range tt.files {
				file = filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := machineMemory(root); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

func TestMemoryBudgetIsDerived(t *testing.T) {
	for _, tt := range []struct{ limit, budget, want int64 }{
		{512 << 20, 0, 256 << 20},
		{16 << 30, 0, DefaultMemoryBudget},
		{16 << 30, 3 << 30, 3 << 30},
	} {
		c := Config{MemoryLimit: tt.limit, MemoryBudget: tt.budget}
		if got := c.memoryBudget(); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}
