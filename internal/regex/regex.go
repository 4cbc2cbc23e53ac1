// Package regex compiles regular expressions of clients within a bound of memory. A text of 4 KiB
// can make package regexp keep 23 MB: "(.{1000}){1000}" is refused there, but ".{1000}" written a
// few hundred times is not.
package regex

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// TooLargeError reports a regular expression that would take more memory than allowed.
type TooLargeError struct {
	Size, Limit int // see [Compile]
}

// Error has the size and the limit, and what to do.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the regular expression has %d parts when its repetitions are written out: the limit is %d: "+
		"use a shorter text, or smaller numbers in {}", e.Size, e.Limit)
}

// Compile is regexp.Compile for a text whose compiled form has at most limit instructions, of 40
// bytes each; ranges of classes such as \pL count in units of that. It returns their number too. A
// larger one is a [*TooLargeError], which is found before anything of that size is allocated.
func Compile(text string, limit int) (re *regexp.Regexp, size int, err error) {
	if size, err = check(text, limit); err != nil {
		return nil, 0, err
	}
	re, err = regexp.Compile(text)
	return re, size, err
}

// CompileWhole is [Compile] for an expression that is to match whole texts only.
func CompileWhole(text string, limit int) (*regexp.Regexp, error) {
	if _, err := check(text, limit); err != nil { // alone: "a)(b" is valid only inside the parentheses below
		return nil, err
	}
	return regexp.Compile(`\A(?:` + text + `)\z`)
}

// check returns the size of an expression.
func check(text string, limit int) (size int, err error) {
	if len(text) > limit {
		return 0, &TooLargeError{Size: len(text), Limit: limit}
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	if size = instructions(tree); size > limit {
		return 0, &TooLargeError{Size: size, Limit: limit}
	}
	return size, nil
}

// instructions returns at least the number of instructions of the program of re, whose repetitions
// are not written out yet. It does not overflow: the parser allows at most 1,000 repetitions, those
// inside of others multiplied.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n = 1 + len(re.Rune)/10 // 4 bytes a rune
	case syntax.OpCapture, syntax.OpStar:
		n += 2
	case syntax.OpPlus, syntax.OpQuest:
		n++
	case syntax.OpAlternate:
		n += len(re.Sub) - 1
	case syntax.OpRepeat: // x{2,} is xx+, x{2,4} is xx(x(x)?)?
		n = n*max(re.Min, re.Max, 1) + max(re.Max-re.Min, 2)
	}
	return max(n, 1)
}
