package regex_test

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/internal/regex"
)

func Example() {
	_, _, err := regex.Compile(strings.Repeat(".{1000}", 10), 5000)
	fmt.Println(err)
	// Output: the regular expression has 10020 parts when its repetitions are written out: the limit is 5000: use a shorter text, or smaller numbers in {}
}

// TestSize compares the size with the number of instructions that package syntax makes: it is never
// less, and no more than usual expressions need.
func TestSize(t *testing.T) {
	for _, text := range []string{
		"", "abc", "(?i)k", ".", `\pL`, "[^a]", "()", "(a)(?:b)", "a*", "(?:)*", "a+", "a?", "(a*)*", "(?:a|)*", "a|bc|d", "a|", "^$", `\b`,
		"a{0}", "a{0,}", "a{1}", "a{1,}", "a{5}", "a{5,}", "a{0,5}", "a{1,5}", "a{5,9}", "(a|b*){3,7}", "(a{2,3}){4,}", "(?:a*){0,3}", "(?:){9}",
		`[^\x00-\x{10FFFF}]{3}`, "((a{10}){10}){10}", ".{500}", "^(a|bc|d)+$", "(?i)error", strings.Repeat("()", 50), strings.Repeat("x?", 500),
	} {
		re, size, err := regex.Compile(text, 100_000)
		if err != nil || re.String() != text {
			t.Errorf("%q: %v", text, err)
			continue
		}
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		n := len(prog.Inst) - 2 // two instructions, of failure and of the match, are in every program
		if size < n || size > 2*n+150 {
			t.Errorf("%q: size %d, of %d instructions", text, size, n)
		}
	}
}

func TestCompileWhole(t *testing.T) {
	re, err := regex.CompileWhole("a|b+", 100)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"a": true, "bb": true, "ab": false, "": false} {
		if re.MatchString(text) != want {
			t.Errorf("%q: matches: %v, want %v", text, !want, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{
		strings.Repeat(".{1000}", 585), strings.Repeat("(a{2}){400}", 10), strings.Repeat("a", 5001), strings.Repeat(`\pL`, 400), strings.Repeat("x{0,900}", 8),
	} {
		var large *regex.TooLargeError
		if _, _, err := regex.Compile(text, 5000); !errors.As(err, &large) || large.Size <= large.Limit {
			t.Errorf("%.30q: %v", text, err)
		}
	}
	var malformed *syntax.Error
	for _, text := range []string{"(", "a)(b", "(a{1000}){1000}", "[z-a]"} {
		_, _, err := regex.Compile(text, 5000)
		_, whole := regex.CompileWhole(text, 5000)
		if !errors.As(err, &malformed) || !errors.As(whole, &malformed) {
			t.Errorf("%q: %v, %v", text, err, whole)
		}
	}
}
