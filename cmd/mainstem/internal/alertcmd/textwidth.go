package alertcmd

import (
	"strings"
	"unicode"
)

// wide are the characters that take two columns of a terminal, from and to.
var wide = [][2]rune{
	{0x1100, 0x115F}, {0x2E80, 0x303E}, {0x3041, 0xA4CF}, {0xAC00, 0xD7A3}, {0xF900, 0xFAFF}, {0xFE30, 0xFE6F},
	{0xFF00, 0xFF60}, {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD},
}

// runeWidth returns how many columns of a terminal a character takes.
func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	for _, w := range wide {
		if r >= w[0] && r <= w[1] {
			return 2
		}
	}
	return 1
}

// textWidth returns how many columns of a terminal a text takes.
func textWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// pad fills s with blanks up to a width, behind it or before it.
func pad(s string, width int, left bool) string {
	blanks := strings.Repeat(" ", max(0, width-textWidth(s)))
	if left {
		return s + blanks
	}
	return blanks + s
}

// shorten cuts s to a width; what was cut ends with an ellipsis.
func shorten(s string, width int) string {
	if width <= 0 {
		return ""
	}
	if textWidth(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > width-1 {
			return s[:i] + "…"
		}
	}
	return s
}
