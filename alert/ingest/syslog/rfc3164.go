package syslog

import (
	"strconv"
	"strings"
	"time"
)

// maxTag bounds the name of a program before a colon. RFC 3164 says 32; programs have
// longer names.
const maxTag = 64

// rfc3164 reads what follows the priority, as far as it is there.
func (p *parser) rfc3164(s string, m *Message) {
	rest := counters(s)
	at, after, ok := p.timestamp(rest)
	if !ok {
		m.Text = strings.TrimPrefix(s, bom)
		if !m.NoPriority {
			m.tag(s) // some programs leave time and host out
		}
		return
	}
	m.Format, m.Time = RFC3164, at
	word, tail, _ := strings.Cut(after, " ")
	if word != "" && isHost(word) && tail != "" {
		m.Hostname, after = word, tail
	}
	m.Text = strings.TrimPrefix(after, bom)
	m.tag(after)
}

// counters passes over what routers put before the time: "45: ", ": ", "*", ".".
func counters(s string) string {
	t := strings.TrimLeft(s, " ")
	for range 2 {
		digits := strings.TrimLeft(t, "0123456789")
		if after, ok := strings.CutPrefix(digits, ": "); ok {
			t = strings.TrimLeft(after, " ")
		}
	}
	if t != "" && (t[0] == '*' || t[0] == '.') {
		t = t[1:]
	}
	return t
}

// isHost reports whether a word stands where the name of a host is, and not that of a
// program: "su:", "sshd[42]:", "%SYS-5-CONFIG_I:".
func isHost(word string) bool {
	if strings.HasSuffix(word, ":") {
		return strings.Count(word, ":") > 1 && !strings.ContainsAny(word, "[%") // an IPv6 address that ends so
	}
	return !strings.ContainsAny(word, "[%]")
}

// tag takes the name of the program, and the number of its process, off the text if it
// begins with them.
func (m *Message) tag(s string) {
	s = strings.TrimLeft(s, " ")
	end := strings.IndexAny(s, "[: ")
	if end <= 0 || end > maxTag {
		return
	}
	name, rest := s[:end], s[end:]
	if rest[0] == '[' {
		proc, after, ok := strings.Cut(rest[1:], "]")
		if !ok || len(proc) > maxTag || strings.Contains(proc, " ") {
			return
		}
		if after, ok = strings.CutPrefix(after, ":"); !ok {
			return
		}
		m.AppName, m.ProcID, m.Text = name, proc, strings.TrimPrefix(after, " ")
		return
	}
	if after, ok := strings.CutPrefix(rest, ":"); ok && (after == "" || after[0] == ' ') {
		m.AppName, m.Text = name, strings.TrimPrefix(after, " ")
	}
}

// timestamp reads a time and returns what follows it and a blank.
func (p *parser) timestamp(s string) (at time.Time, rest string, ok bool) {
	if word, after, found := strings.Cut(s, " "); found && len(word) >= len("2006-01-02T15:04:05") && word[4] == '-' {
		word = strings.TrimSuffix(word, ":")
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999"} {
			if at, err := time.ParseInLocation(layout, word, p.location); err == nil {
				return at, after, true
			}
		}
		return at, s, false
	}
	c := clock{location: p.location, year: -1}
	if rest, ok = c.read(s); !ok {
		return at, s, false
	}
	at, ok = c.time(p.now())
	return at, rest, ok
}

// clock is a time in parts, as RFC 3164 and the devices that extend it have it:
//
//	Mmm dd [yyyy] hh:mm:ss[.fraction] [yyyy] [zone][:]
type clock struct {
	month                     time.Month
	day, year                 int // year is -1 if there is none
	hour, minute, second, sub int
	location                  *time.Location
}

func (c *clock) read(s string) (rest string, ok bool) {
	if len(s) < 3 || s[0] < 'A' || s[0] > 'Z' {
		return s, false
	}
	month, err := time.Parse("Jan", s[:3])
	if err != nil {
		return s, false
	}
	c.month = month.Month()
	word, s := nextWord(s[3:])
	if c.day, err = strconv.Atoi(word); err != nil || len(word) > 2 || c.day < 1 || c.day > 31 {
		return s, false
	}
	word, s = nextWord(s)
	if y, ok := year(word); ok {
		c.year = y
		word, s = nextWord(s)
	}
	word, ended := strings.CutSuffix(word, ":")
	if !c.clock(word) {
		return s, false
	}
	for !ended {
		word, after := nextWord(s)
		word, ended = strings.CutSuffix(word, ":")
		y, isYear := year(word)
		z := zone(word)
		switch {
		case isYear && c.year < 0:
			c.year = y
		case z != nil && after != "":
			c.location = z
			return after, true
		default:
			return strings.TrimLeft(s, " "), true
		}
		s = after
	}
	return strings.TrimLeft(s, " "), true
}

// clock reads hh:mm:ss with or without a fraction.
func (c *clock) clock(s string) bool {
	if len(s) < 8 || s[2] != ':' || s[5] != ':' {
		return false
	}
	for _, part := range []struct {
		at, limit int
		to        *int
	}{{0, 23, &c.hour}, {3, 59, &c.minute}, {6, 60, &c.second}} {
		n, err := strconv.Atoi(s[part.at : part.at+2])
		if err != nil || n < 0 || n > part.limit {
			return false
		}
		*part.to = n
	}
	if len(s) == 8 {
		return true
	}
	if len(s) == 9 || len(s) > 18 || s[8] != '.' && s[8] != ',' {
		return false
	}
	unit := int(time.Second)
	for _, d := range []byte(s[9:]) {
		if d < '0' || d > '9' {
			return false
		}
		unit /= 10
		c.sub += int(d-'0') * unit
	}
	return true
}

// time returns the time; without a year, that of the year which brings it nearest to now.
func (c *clock) time(now time.Time) (time.Time, bool) {
	if c.year >= 0 {
		return c.in(c.year)
	}
	var best time.Time
	var distance time.Duration
	found := false
	this := now.In(c.location).Year()
	// A 29 February may be of the last leap year.
	for _, y := range []int{this, this - 1, this + 1, this - 2, this - 3, this - 4} {
		at, ok := c.in(y)
		if d := at.Sub(now).Abs(); ok && (!found || d < distance) {
			best, distance, found = at, d, true
		}
	}
	return best, found
}

func (c *clock) in(y int) (time.Time, bool) {
	at := time.Date(y, c.month, c.day, c.hour, c.minute, c.second, c.sub, c.location)
	return at, time.Date(y, c.month, c.day, 0, 0, 0, 0, time.UTC).Day() == c.day // else the month is shorter
}

// nextWord returns the next word and what follows the blank behind it.
func nextWord(s string) (word, rest string) {
	word, rest, _ = strings.Cut(strings.TrimLeft(s, " "), " ")
	return word, rest
}

func year(word string) (int, bool) {
	if len(word) != 4 {
		return 0, false
	}
	y, err := strconv.Atoi(word)
	return y, err == nil && y >= 1970 && y < 2200
}

// zones are the names of zones that devices write, in hours from UTC. Names that mean
// different zones in different countries are left out.
var zones = map[string]float64{
	"Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "MEZ": 1, "MESZ": 2, "EET": 2, "EEST": 3, "MSK": 3,
	"EST": -5, "EDT": -4, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "AKST": -9, "AKDT": -8, "HST": -10,
	"JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "ACST": 9.5, "AWST": 8, "NZST": 12, "NZDT": 13,
}

// zone returns the zone that a word names, or nil.
func zone(word string) *time.Location {
	if hours, ok := zones[word]; ok {
		return time.FixedZone(word, int(hours*3600))
	}
	for _, layout := range []string{"-07:00", "-0700"} {
		if len(word) != len(layout) {
			continue
		}
		if at, err := time.Parse(layout, word); err == nil {
			_, offset := at.Zone()
			return time.FixedZone(word, offset)
		}
	}
	return nil
}
