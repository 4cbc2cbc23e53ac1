package logcopy

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// unlike says in what two records of one key and version differ, "" if in nothing
// that a copy keeps. content is true if a rewrite makes them alike. later allows the
// record of the target a later time, and to expire later by as much.
func unlike(s, t *mainstem.Record, later bool) (what string, content bool) {
	var parts []string
	add := func(name string, a, b any) { parts = append(parts, fmt.Sprintf("%s %v instead of %v", name, b, a)) }
	ended := s.Tombstone == mainstem.Expired || t.Tombstone == mainstem.Expired
	later = later && !t.Time.Before(s.Time) && !t.Expires.After(s.Expires.Add(t.Time.Sub(s.Time)))
	if s.Count != t.Count {
		add("count", s.Count, t.Count)
	}
	if kind(s) != kind(t) {
		add("tombstone", s.Tombstone, t.Tombstone)
	}
	if !s.Time.Equal(t.Time) && !later && !ended {
		add("time", timeText(s.Time), timeText(t.Time))
	}
	if !sameExpiry(s, t) && !later && !ended {
		add("expiry", timeText(s.Expires), timeText(t.Expires))
	}
	content = len(parts) == 0
	if !sameBytes(s.Value, t.Value) {
		parts = append(parts, fmt.Sprintf("a value of %s instead of %s", size(t.Value), size(s.Value)))
	}
	if !sameHeaders(s.Headers, t.Headers) && !ended {
		parts = append(parts, fmt.Sprintf("%d other headers instead of %d", len(t.Headers), len(s.Headers)))
	}
	return strings.Join(parts, ", "), content
}

// kind takes the tombstones of deletes and of expiry for one: no operation writes
// the latter.
func kind(r *mainstem.Record) mainstem.Tombstone {
	if r.Tombstone == mainstem.Expired {
		return mainstem.Deleted
	}
	return r.Tombstone
}

// sameExpiry compares when records expire. Not every engine says it of tombstones.
func sameExpiry(s, t *mainstem.Record) bool {
	if !s.Live() && (s.Expires.IsZero() || t.Expires.IsZero()) {
		return true
	}
	return s.Expires.Equal(t.Expires)
}

func sameBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func sameHeaders(a, b mainstem.Headers) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || !sameBytes(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

func size(b []byte) string {
	if b == nil {
		return "nothing"
	}
	return fmt.Sprintf("%d bytes", len(b))
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339Nano)
}
