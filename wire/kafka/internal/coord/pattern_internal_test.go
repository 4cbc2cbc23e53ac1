package coord

import (
	"errors"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/internal/regex"
)

func TestCompilePattern(t *testing.T) {
	for pattern, want := range map[string]bool{
		"orders-.*": true, "orders|payments": false, ".{1,249}": true, "(?i)ORDERS-[0-9]+": true, "rders-1": false,
		strings.Repeat("x|", MaxPattern/2-5) + "orders-1": true, "[a-z0-9._-]{249}": false, "": false,
	} {
		re, err := CompilePattern(pattern)
		if err != nil {
			t.Errorf("%.40s: %v", pattern, err)
		} else if re.MatchString("orders-1") != want {
			t.Errorf("%.40s: matches: %v, want %v", pattern, !want, want)
		}
	}
	for pattern, large := range map[string]bool{
		"(": false, "a)(b": false, strings.Repeat("x", MaxPattern+1): true, strings.Repeat(".{1000}", 585): true,
		strings.Repeat(".?", 2_000_000): true, strings.Repeat(`\pL`, 1000): true, "((abc?){30}){30}": true, strings.Repeat("a{0,900}b{900,}", 3): true,
	} {
		var size *regex.TooLargeError
		if _, err := CompilePattern(pattern); err == nil || errors.As(err, &size) != large {
			t.Errorf("%.40s: %v", pattern, err)
		}
	}
}
