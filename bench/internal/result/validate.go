package result

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Validate returns what is wrong with f first.
func (f *File) Validate() error {
	switch {
	case f.Version != Version:
		return fmt.Errorf("version is %d, not %d", f.Version, Version)
	case len(f.Rows) > MaxRows:
		return fmt.Errorf("%d rows: the limit is %d", len(f.Rows), MaxRows)
	case f.Machine.Cores < 0 || f.Machine.Memory < 0:
		return errors.New("the machine has less than nothing")
	case len(f.Note) > MaxText:
		return fmt.Errorf("the note has more than %d bytes", MaxText)
	case f.Settings.Rounds < 0 || f.Settings.Time < 0 || f.Settings.Limit < 0:
		return errors.New("the settings have a negative number")
	}
	seen := make(map[string]bool, len(f.Rows))
	for i := range f.Rows {
		r := &f.Rows[i]
		if err := r.validate(); err != nil {
			return fmt.Errorf("row %d (%.80q): %w", i, r.Name(), err)
		}
		if seen[r.Name()] {
			return fmt.Errorf("row %d: %s is there twice", i, r.Name())
		}
		seen[r.Name()] = true
	}
	return nil
}

func (r *Row) validate() error {
	for _, name := range []string{r.Suite, r.Case, r.Contender, r.Durability, r.Op} {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if r.Transport != "" {
		if err := checkName(r.Transport); err != nil {
			return fmt.Errorf("transport: %w", err)
		}
	}
	if strings.Contains(r.Suite, "/") || strings.Contains(r.Contender, "/") {
		return errors.New("a slash in the name of a suite or of a contender")
	}
	switch {
	case max(len(r.About), len(r.Note), len(r.Reason)) > MaxText:
		return fmt.Errorf("a text has more than %d bytes", MaxText)
	case r.Items < 1 || r.Clients < 1 || r.BytesPerOp < 0:
		return errors.New("items and clients are at least 1, bytes at least 0")
	case len(r.Samples) > MaxSamples || len(r.Metrics) > MaxMetrics || len(r.Marks) > MaxMarks:
		return errors.New("too many samples, metrics or marks")
	}
	if err := r.validateStatus(); err != nil {
		return err
	}
	return r.validateNumbers()
}

func (r *Row) validateStatus() error {
	switch r.Status {
	case OK:
		if len(r.Samples) == 0 || r.Reason != "" {
			return errors.New("it is ok, without samples or with a reason why not")
		}
		if r.Primary != "" && r.Metric(r.Primary) == nil {
			return fmt.Errorf("it is ok and lacks its primary metric %.80q", r.Primary)
		}
	case Skipped, Failed:
		if r.Reason == "" {
			return fmt.Errorf("%s without a reason", r.Status)
		}
	default:
		return fmt.Errorf("the status %.80q is none of %s, %s, %s", r.Status, OK, Skipped, Failed)
	}
	return nil
}

func (r *Row) validateNumbers() error {
	for _, s := range r.Samples {
		if s.Ops < 1 || !measured(s.Time) || !measured(s.Bytes) || !measured(s.Allocs) || s.Order < 0 {
			return errors.New("a sample has a number that cannot be")
		}
	}
	for _, m := range r.Metrics {
		if err := m.validate(); err != nil {
			return err
		}
	}
	for i, m := range r.Marks {
		if m.Done < 0 || m.Elapsed < 0 || i > 0 && m.Elapsed < r.Marks[i-1].Elapsed {
			return errors.New("marks go back in time")
		}
	}
	if c := r.Curve; c != nil && (checkName(c.Name) != nil || checkName(c.Axis) != nil || !finite(c.X)) {
		return errors.New("its place on a curve makes no sense")
	}
	return r.Latency.validate()
}

func (m *Metric) validate() error {
	if err := errors.Join(checkName(m.Name), checkName(m.Unit)); err != nil {
		return err
	}
	if len(m.Values) == 0 || len(m.Values) > MaxSamples {
		return fmt.Errorf("metric %.80q has %d values: want 1 to %d", m.Name, len(m.Values), MaxSamples)
	}
	for _, v := range m.Values {
		if !finite(v) {
			return fmt.Errorf("metric %.80q is not a number", m.Name)
		}
	}
	return nil
}

func (l *Latency) validate() error {
	if l == nil {
		return nil
	}
	if l.Count < 1 || l.Max < 0 || !measured(l.Mean) || len(l.Points) > len(Quantiles) {
		return errors.New("the latency has a number that cannot be")
	}
	last := Point{}
	for _, p := range l.Points {
		if !(p.Quantile > last.Quantile && p.Quantile < 1) || p.Time < last.Time {
			return errors.New("the quantiles of the latency are not in order")
		}
		last = p
	}
	return nil
}

func finite(v float64) bool   { return !math.IsNaN(v) && !math.IsInf(v, 0) }
func measured(v float64) bool { return finite(v) && v >= 0 }

// checkName returns an error for what is no name: it ends up in tables and in
// file names.
func checkName(s string) error {
	if s == "" || len(s) > MaxName || !utf8.ValidString(s) {
		return fmt.Errorf("the name %.80q is empty, no text, or longer than %d bytes", s, MaxName)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.Contains(s, "..") ||
		strings.HasPrefix(s, "/") || strings.HasSuffix(s, "/") {
		return fmt.Errorf("the name %.80q has characters that a table or a path cannot hold", s)
	}
	return nil
}
