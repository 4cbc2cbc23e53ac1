package ingest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// rule says what a column gets.
type rule struct {
	column   alert.Column
	value    *template
	match    *regexp.Regexp // what of the value is taken; nil: all
	to       string         // with the groups of match
	fold     func(string) string
	replace  []replacement
	table    map[string]string // keys in lower case; nil: none
	name     string            // of the table
	layouts  []string          // of times
	zone     *time.Location
	fallback *template // if nothing is left
}

type replacement struct {
	match *regexp.Regexp
	with  string
}

// text returns what the rule makes of an event, before the type of the column counts.
func (r *rule) text(s scope) (string, error) {
	v := r.value.expand(s)
	if r.match != nil {
		v = submatch(r.match, r.to, v)
	}
	for i := range r.replace {
		v = r.replace[i].match.ReplaceAllString(v, r.replace[i].with)
	}
	if r.fold != nil {
		v = r.fold(v)
	}
	if r.table != nil && v != "" {
		found, ok := r.table[strings.ToLower(strings.TrimSpace(v))]
		switch {
		case ok:
			v = found
		case !r.column.Type.Text() && isNumber(v): // it is what the table would lead to
		case r.fallback != nil:
			v = ""
		default:
			return "", fmt.Errorf("column %s: %.40q is not in the table %s, and there is no default", r.column.Name, v, r.name)
		}
	}
	if v == "" {
		v = r.fallback.expand(s)
		if found, ok := r.table[strings.ToLower(v)]; ok {
			v = found
		}
	}
	return v, nil
}

// submatch returns "" if re does not match.
func submatch(re *regexp.Regexp, to, v string) string {
	m := re.FindStringSubmatchIndex(v)
	if m == nil {
		return ""
	}
	return string(re.ExpandString(nil, to, v, m))
}

// typed returns a text as a value of the rule's column.
func (r *rule) typed(v string) (any, error) {
	c := &r.column
	if c.Type.Text() {
		v = clean(v)
		if c.PrimaryKey && c.Size > 0 {
			v = shorten(v, c.Size)
		}
		// No table holds more. A copy keeps nothing else of the message in memory.
		return strings.Clone(cutText(v, osql.MaxVarchar)), nil
	}
	if c.Type == osql.Time && v != "" {
		at, err := parseTime(v, r.layouts, r.zone)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		return max(at, 0), nil
	}
	fitted, err := alert.Fit(v, *c)
	if err != nil {
		return nil, err
	}
	return fitted.Any(), nil
}

// clean takes out what no text of an alert should have.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexFunc(s, isControl) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, s)
}

func isControl(r rune) bool { return r < 0x20 && r != '\n' && r != '\t' || r == 0x7f }

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return err == nil
}

// condition is one of a drop rule.
type condition struct {
	value *template
	in    []string // in lower case
	match *regexp.Regexp
	exist *bool
	not   bool
}

func (c *condition) holds(s scope) bool {
	v := c.value.expand(s)
	ok := true
	if c.in != nil {
		ok = slices.Contains(c.in, strings.ToLower(v))
	}
	if ok && c.match != nil {
		ok = c.match.MatchString(v)
	}
	if ok && c.exist != nil {
		ok = (v != "") == *c.exist
	}
	return ok != c.not
}

// extraction makes fields of the named groups of an expression.
type extraction struct {
	value *template
	match *regexp.Regexp
}

func (x *extraction) apply(e *Event, s scope) {
	v := x.value.expand(s)
	m := x.match.FindStringSubmatch(v)
	if m == nil {
		return
	}
	for i, name := range x.match.SubexpNames() {
		if name != "" {
			e.Set(name, m[i])
		}
	}
}

// autoLayout stands for a number that counts seconds, or parts of seconds if it is too large for
// that, and for timeLayouts. It is what holds where a mapping names none.
const autoLayout = "auto"

// timeLayouts are tried one after the other.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999", "2006-01-02T15:04",
	"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999 -0700", "2006-01-02 15:04:05.999999999", "2006-01-02 15:04", "2006-01-02",
	time.RFC1123Z, time.RFC1123, time.RFC850, time.ANSIC, time.UnixDate, time.RubyDate, "02/Jan/2006:15:04:05 -0700",
}

// unixUnits are layouts for numbers, with the units of a second.
var unixUnits = map[string]float64{"unix": 1, "unixms": 1e3, "unixus": 1e6, "unixns": 1e9}

// parseTime returns the seconds since 1970 of a time in the first of the layouts that fits.
func parseTime(v string, layouts []string, zone *time.Location) (int64, error) {
	v = strings.TrimSpace(v)
	if zone == nil {
		zone = time.UTC
	}
	f, numErr := strconv.ParseFloat(v, 64)
	if numErr == nil && (f != f || f > 1e20 || f < -1e20) {
		return 0, fmt.Errorf("%.40q is no time", v)
	}
	if layouts == nil {
		layouts = []string{autoLayout}
	}
	for _, l := range layouts {
		if unit, ok := unixUnits[l]; ok {
			if numErr == nil {
				return int64(f / unit), nil
			}
			continue
		}
		if numErr == nil && l == autoLayout {
			for f > 1e11 {
				f /= 1e3
			}
			return int64(f), nil
		}
		forms := []string{l}
		if l == autoLayout {
			forms = timeLayouts
		}
		for _, form := range forms {
			if at, err := time.ParseInLocation(form, v, zone); err == nil {
				return at.Unix(), nil
			}
		}
	}
	return 0, fmt.Errorf("%.40q is no time in a known form: the key time of a rule names its layout", v)
}
