package coord

import (
	"errors"
	"regexp/syntax"
	"strings"
	"testing"
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
		if _, err := CompilePattern(pattern); err == nil || errors.Is(err, ErrPatternSize) != large {
			t.Errorf("%.40s: %v", pattern, err)
		}
	}
}

// The size of a program that is not expanded yet is never less than that of the program.
func TestProgramSize(t *testing.T) {
	for _, pattern := range []string{
		"", "abc", "(?i)k", ".", `\pL`, "[^a]", "()", "(a)(?:b)", "a*", "(?:)*", "a+", "a?", "(a*)*", "(?:a|)*", "a|bc|d", "a|", "^$", `\b`,
		"a{0}", "a{0,}", "a{1}", "a{1,}", "a{5}", "a{5,}", "a{0,5}", "a{1,5}", "a{5,9}", "(a|b*){3,7}", "(a{2,3}){4,}", "(?:a*){0,3}", "(?:){9}", `[^\x00-\x{10FFFF}]{3}`,
	} {
		re, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		size := programSize(re)
		p, err := syntax.Compile(re.Simplify())
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		if n := len(p.Inst) - 2; size < n { // two instructions, of failure and of the match, are in every program
			t.Errorf("%s: size %d, but %d instructions", pattern, size, n)
		}
	}
}
