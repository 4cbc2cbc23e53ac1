package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// scale is a unit and how many of the base unit it is.
type scale struct {
	name string
	size float64
}

var (
	times = []scale{{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}}
	sizes = []scale{{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}
	plain = []scale{{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}}
)

// Value writes a number with its unit, to three digits: "1.23 µs", "64 KiB",
// "12.3k".
func Value(v float64, unit string) string {
	switch unit {
	case "ns":
		return scaled(v, times, " ")
	case "B":
		return scaled(v, sizes, " ")
	case "1", "":
		return scaled(v, plain, "")
	case "x":
		return digits(v) + "×"
	}
	if rest, ok := cutUnit(unit, "B/"); ok {
		return scaled(v, sizes, " ") + "/" + rest
	}
	if rest, ok := cutUnit(unit, "ns/"); ok {
		return scaled(v, times, " ") + "/" + rest
	}
	return scaled(v, plain, "") + " " + unit
}

func cutUnit(unit, prefix string) (string, bool) {
	if len(unit) > len(prefix) && unit[:len(prefix)] == prefix {
		return unit[len(prefix):], true
	}
	return "", false
}

func scaled(v float64, scales []scale, between string) string {
	at := scales[0]
	for _, s := range scales {
		// 999.6 rounds to 1000, which is one of the next unit.
		if math.Abs(v) >= s.size*0.9995 {
			at = s
		}
	}
	text := digits(v / at.size)
	if at.name == "" {
		return text
	}
	return text + between + at.name
}

// digits writes three significant digits.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return trimZero(strconv.FormatFloat(v, 'f', 1, 64))
	case a >= 0.01:
		return trimZero(strconv.FormatFloat(v, 'f', 2, 64))
	}
	return fmt.Sprintf("%.2g", v)
}

// trimZero makes "3.00" "3": numbers that are whole are counted, not measured.
func trimZero(s string) string {
	for len(s) > 1 && s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	if s[len(s)-1] == '.' {
		s = s[:len(s)-1]
	}
	return s
}

// percent writes a part as "3 %".
func percent(part float64) string {
	switch p := math.Abs(part) * 100; {
	case p < 0.5:
		return "0 %"
	case p < 1000:
		return strconv.FormatFloat(p, 'f', 0, 64) + " %"
	}
	return "> 999 %"
}

// rate writes operations per second, given nanoseconds for one.
func rate(ns float64, items int) string {
	if ns <= 0 {
		return ""
	}
	return scaled(1e9/ns*float64(items), plain, "")
}

// Plural returns the plural of what an operation handles: "event", "query", "batch".
func Plural(noun string) string {
	switch {
	case strings.HasSuffix(noun, "y") && len(noun) > 1 && !strings.ContainsRune("aeiou", rune(noun[len(noun)-2])):
		return noun[:len(noun)-1] + "ies"
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "sh"):
		return noun + "es"
	}
	return noun + "s"
}
