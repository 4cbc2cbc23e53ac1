package compare

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/mainstemdev/mainstem/bench/internal/runner"
)

// Thresholds say which changes count. They are read from YAML:
//
//	alpha: 0.01
//	time: 10%
//	rows:
//	  - match: kv/list
//	    time: 20%
type Thresholds struct {
	Alpha  float64 `yaml:"alpha"`  // how often the same may be called different
	Time   Percent `yaml:"time"`   // of an operation; of a primary metric too
	Bytes  Percent `yaml:"bytes"`  // allocated for an operation
	Allocs Percent `yaml:"allocs"` // for an operation
	// Rows are thresholds of some cases or rows, by the patterns of the command line;
	// the last that matches holds, and its zeros mean the ones above.
	Rows []Override `yaml:"rows"`
}

// Override is the thresholds of what matches.
type Override struct {
	Match  string  `yaml:"match"`
	Time   Percent `yaml:"time"`
	Bytes  Percent `yaml:"bytes"`
	Allocs Percent `yaml:"allocs"`
}

// Percent is a part, written as "10%".
type Percent float64

// UnmarshalYAML reads "10%".
func (p *Percent) UnmarshalYAML(n *yaml.Node) error {
	number, ok := strings.CutSuffix(n.Value, "%")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(v > 0) || math.IsInf(v, 0) {
		return fmt.Errorf("line %d: %.40q is no percentage such as 10%%", n.Line, n.Value)
	}
	*p = Percent(v / 100)
	return nil
}

// DefaultThresholds are those without a file.
func DefaultThresholds() Thresholds {
	return Thresholds{Alpha: 0.01, Time: 0.10, Bytes: 0.10, Allocs: 0.05}
}

const maxThresholds = 1 << 20 // bytes of a file

// ReadThresholds reads a file. What it leaves out has the default; what it does not
// know is an error.
func ReadThresholds(path string) (Thresholds, error) {
	t := DefaultThresholds()
	f, err := os.Open(path)
	if err != nil {
		return t, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxThresholds))
	if err != nil {
		return t, err
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&t); err != nil && err != io.EOF {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	if !(t.Alpha > 0 && t.Alpha < 1) {
		return t, fmt.Errorf("%s: alpha is %v: want more than 0 and less than 1", path, t.Alpha)
	}
	for _, r := range t.Rows {
		if r.Match == "" {
			return t, fmt.Errorf("%s: an entry of rows has no match", path)
		}
	}
	return t, nil
}

// of returns the thresholds of a row.
func (t Thresholds) of(name string) Override {
	o := Override{Time: t.Time, Bytes: t.Bytes, Allocs: t.Allocs}
	for _, r := range t.Rows {
		if !runner.Matches(r.Match, name) {
			continue
		}
		o = Override{Time: t.Time, Bytes: t.Bytes, Allocs: t.Allocs}
		if r.Time > 0 {
			o.Time = r.Time
		}
		if r.Bytes > 0 {
			o.Bytes = r.Bytes
		}
		if r.Allocs > 0 {
			o.Allocs = r.Allocs
		}
	}
	return o
}
