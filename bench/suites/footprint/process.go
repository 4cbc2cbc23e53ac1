package footprint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// looks are how often memory is looked at.
const looks = 5

// lookEvery passes between looks at memory and at the disk; a directory is at rest
// when its size has not changed for unchangedFor. Tests shorten them.
var (
	lookEvery    = 200 * time.Millisecond
	unchangedFor = 2 * time.Second
)

// resident returns the median of some looks at the resident memory of a process.
func resident(ctx context.Context, pid int) (uint64, error) {
	var seen []uint64
	for range looks {
		n, err := residentNow(ctx, pid)
		if err != nil {
			return 0, err
		}
		seen = append(seen, n)
		if err := pass(ctx, lookEvery); err != nil {
			return 0, err
		}
	}
	slices.Sort(seen)
	return seen[looks/2], nil
}

// pass waits, unless ctx ends.
func pass(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// residentNow asks the kernel where it can, and else the program ps. Both speak of
// KiB.
func residentNow(ctx context.Context, pid int) (uint64, error) {
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		for line := range strings.Lines(string(status)) {
			if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				return kibibytes(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
			}
		}
	}
	out, err := exec.CommandContext(ctx, "ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, fmt.Errorf("resident memory of process %d: %w", pid, err)
	}
	return kibibytes(strings.TrimSpace(string(out)))
}

func kibibytes(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n << 10, err
}

// sizeWait is how long the size of a directory may go on to change.
const sizeWait = 30 * time.Second

// stableSize returns the bytes of the files in dir once they no longer change, or
// have had their time.
func stableSize(ctx context.Context, dir string) (int64, error) {
	began := time.Now()
	last, since := int64(-1), began
	for {
		n, err := dirSize(dir)
		if err != nil {
			return 0, err
		}
		if n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) >= unchangedFor || time.Since(began) >= sizeWait {
			return n, nil
		}
		if err := pass(ctx, lookEvery); err != nil {
			return 0, err
		}
	}
}

// dirSize returns the bytes of all files below dir. Files may vanish meanwhile.
func dirSize(dir string) (int64, error) {
	var size int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				size += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return size, err
}

// traced is a line of the collector's trace, with GODEBUG=gctrace=1: the world stops
// in the first and in the last of the three times.
var traced = regexp.MustCompile(`^gc \d+ @[\d.]+s \d+%: ([\d.]+)\+[\d.]+\+([\d.]+) ms clock`)

// ParsePauses returns the stops of the world that the trace of a Go program in r
// tells of, two for each collection. Lines that are something else are passed over.
func ParsePauses(r io.Reader) ([]time.Duration, error) {
	var pauses []time.Duration
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		m := traced.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		for _, text := range m[1:] {
			ms, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, err
			}
			pauses = append(pauses, time.Duration(ms*float64(time.Millisecond)))
		}
	}
	return pauses, lines.Err()
}

// pauseMetrics returns the longest pause, the 99th percentile and how many there were.
func pauseMetrics(pauses []time.Duration) []suite.Metric {
	sorted := slices.Sorted(slices.Values(pauses))
	n := len(sorted)
	return []suite.Metric{
		{Name: "max", Unit: "ns", Value: float64(sorted[n-1])},
		{Name: "p99", Unit: "ns", Value: float64(sorted[min(n*99/100, n-1)])},
		{Name: "pauses", Unit: "1", Value: float64(n)},
	}
}
