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
	// Output: the regular expression has 30000 parts when its repetitions are written out: the limit is 5000: use a shorter text, or smaller numbers in {}
}

// TestSize compares the size with that of the program that package syntax makes.
func TestSize(t *testing.T) {
	for _, text := range []string{
		"", "a", "abc", ".*", "^(a|bc|d)+$", "[a-z]{3,5}", "(?i)error", "x{2,}y?", `\pL+\PN`, "((a{10}){10}){10}", ".{500}", "a||b", `\bfoo\b`, "(?:ab){0}", strings.Repeat("()", 50),
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
		if want := len(prog.Inst); size+4 < want || size > 4*want+150 {
			t.Errorf("%q: size %d, of %d instructions", text, size, want)
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
		if _, _, err := regex.Compile(text, 5000); !errors.As(err, &malformed) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
