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

// Compile is regexp.Compile for a text whose compiled form has at most about limit instructions of
// 40 bytes. It returns their number too. A larger one is a [*TooLargeError], which is found before
// anything of that size is allocated.
func Compile(text string, limit int) (re *regexp.Regexp, size int, err error) {
	if len(text) > limit {
		return nil, 0, &TooLargeError{Size: len(text), Limit: limit}
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	if size = instructions(tree); size > limit {
		return nil, 0, &TooLargeError{Size: size, Limit: limit}
	}
	re, err = regexp.Compile(text)
	return re, size, err
}

// instructions returns about how many instructions an expression becomes. It does not overflow: the
// parser allows at most 1,000 repetitions, those inside of others multiplied.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass:
		return 1 + len(re.Rune)/10 // its ranges, 4 bytes a rune
	case syntax.OpConcat:
		return n
	case syntax.OpAlternate:
		return n + len(re.Sub)
	case syntax.OpRepeat:
		times := max(re.Min, re.Max, 1)
		return times * (n + 1)
	}
	return n + 2
}
