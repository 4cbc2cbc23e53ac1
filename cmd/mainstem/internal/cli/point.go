package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Point is the value of a flag that names a moment of the past: a position of the log, or a time. The zero Point is
// not set.
type Point struct {
	Position mainstem.Position
	Time     time.Time
}

// PointUsage is how the usage of a flag of this type says what it takes.
const PointUsage = "`position` of the log or RFC 3339 time"

// IsSet reports whether the flag was given.
func (p *Point) IsSet() bool { return p.Position > 0 || !p.Time.IsZero() }

// Has reports whether what has this position and time was there at p.
func (p *Point) Has(position mainstem.Position, t time.Time) bool {
	if p.Time.IsZero() {
		return position <= p.Position
	}
	return !t.After(p.Time)
}

// Set implements pflag.Value.
func (p *Point) Set(s string) error {
	if n, err := strconv.ParseUint(s, 10, 64); err == nil && n > 0 {
		*p = Point{Position: mainstem.Position(n)}
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.IsZero() {
		return fmt.Errorf("%q is neither a position above 0 nor a time such as 2026-01-02T15:04:05Z", s)
	}
	*p = Point{Time: t}
	return nil
}

// String implements pflag.Value.
func (p *Point) String() string {
	switch {
	case !p.IsSet():
		return ""
	case p.Time.IsZero():
		return strconv.FormatUint(uint64(p.Position), 10)
	}
	return TimeText(p.Time)
}

// Type implements pflag.Value.
func (p *Point) Type() string { return "point" }
