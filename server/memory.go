package server

import (
	"bufio"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem/internal/budget"
)

// DefaultMemoryBudget is the largest default of [Config.MemoryBudget], in bytes.
const DefaultMemoryBudget = 1 << 30

// MemoryBytes returns how much memory the process should use at most, in bytes: the configured
// limit; or else the limit of the Go runtime (GOMEMLIMIT); or else three quarters of the memory
// of the machine or of the limit of the control group of the process, whichever is less. 0 means
// unknown. Only a program should apply it, by [debug.SetMemoryLimit], as mainstem serve does.
func (c *Config) MemoryBytes() int64 {
	if c.MemoryLimit > 0 {
		return c.MemoryLimit
	}
	if n := debug.SetMemoryLimit(-1); n < math.MaxInt64 { // only reads the limit
		return n
	}
	return machineMemory("/") / 4 * 3
}

// memoryBudget returns the size of the budget that clients share, in bytes.
func (c *Config) memoryBudget() int64 {
	if c.MemoryBudget > 0 {
		return c.MemoryBudget
	}
	if n := c.MemoryBytes() / 2; n > 0 {
		return min(n, DefaultMemoryBudget)
	}
	return DefaultMemoryBudget
}

// machineMemory returns the memory of the machine or the limit of the control groups of this
// process, whichever is less, in bytes; 0 if neither is known. root is / except in tests.
func machineMemory(root string) int64 {
	least := int64(0)
	lower := func(n int64) {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	lower(memTotal(path.Join(root, "proc/meminfo")))
	lower(numberIn(path.Join(root, "sys/fs/cgroup/memory/memory.limit_in_bytes"))) // version 1
	// Version 2: the limits of all groups above apply, too. In a container its own group may be
	// the root.
	for group := groupOf(path.Join(root, "proc/self/cgroup")); ; group = path.Dir(group) {
		lower(numberIn(path.Join(root, "sys/fs/cgroup", group, "memory.max")))
		if group == "/" {
			return least
		}
	}
}

// groupOf returns the control group (version 2) in a file in the format of /proc/self/cgroup.
func groupOf(file string) string {
	for line := range lines(file) {
		if group, ok := strings.CutPrefix(line, "0::"); ok {
			return path.Clean("/" + group)
		}
	}
	return "/"
}

// memTotal returns the memory in a file in the format of /proc/meminfo, in bytes.
func memTotal(file string) int64 {
	for line := range lines(file) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			n, err := strconv.ParseInt(f[1], 10, 50)
			if err == nil {
				return n << 10
			}
		}
	}
	return 0
}

// numberIn returns the number that a file contains, or 0 if its content is no number, such as
// max.
func numberIn(file string) int64 {
	for line := range lines(file) {
		if n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil {
			return n
		}
	}
	return 0
}

// lines yields the lines of a file of the kernel, or none if it cannot be read.
func lines(file string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		f, err := os.Open(file)
		if err != nil {
			return
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if !yield(s.Text()) {
				return
			}
		}
	}
}

// memoryMetrics reports budgets at the time of a scrape.
type memoryMetrics struct{ of *budget.Budget }

func memoryFigure(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"budget"}, nil)
}

var (
	memoryUsed    = memoryFigure("mainstem_memory_used_bytes", "Bytes of memory that are taken from a budget; process is the sum of all.")
	memoryLimit   = memoryFigure("mainstem_memory_limit_bytes", "Bytes of memory that a budget has.")
	memoryWaiting = memoryFigure("mainstem_memory_waiting", "Requests, streams and batches that wait for memory.")
	memoryWaited  = memoryFigure("mainstem_memory_waited_total", "How often somebody had to wait for memory.")
	memoryRefused = memoryFigure("mainstem_memory_refused_total", "How often somebody got no memory, after a wait or because it could not wait.")
	memoryRecalls = memoryFigure("mainstem_memory_recalled_total", "How often a client that did not read was cut because others needed its memory.")
)

// Describe implements prometheus.Collector.
func (m memoryMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{memoryUsed, memoryLimit, memoryWaiting, memoryWaited, memoryRefused, memoryRecalls} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m memoryMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, s := range m.of.Stats() {
		for _, f := range []struct {
			desc *prometheus.Desc
			kind prometheus.ValueType
			v    float64
		}{
			{memoryUsed, prometheus.GaugeValue, float64(s.Used)},
			{memoryLimit, prometheus.GaugeValue, float64(s.Limit)},
			{memoryWaiting, prometheus.GaugeValue, float64(s.Waiting)},
			{memoryWaited, prometheus.CounterValue, float64(s.Waited)},
			{memoryRefused, prometheus.CounterValue, float64(s.Refused)},
			{memoryRecalls, prometheus.CounterValue, float64(s.Recalled)},
		} {
			ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.v, s.Name)
		}
	}
}
