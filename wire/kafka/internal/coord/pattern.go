package coord

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// MaxPattern is the most bytes of a pattern that a client sends.
const MaxPattern = 4 << 10

// maxProgram limits the instructions of a compiled pattern. Each takes 40 bytes, and a pattern has
// about one for each byte of its text, except for repetitions such as {1000} and classes such as \pL.
const maxProgram = 5000

// ErrPatternSize is the error of [CompilePattern] for a pattern that is too large.
var ErrPatternSize = errors.New("the pattern is too large")

// CompilePattern compiles an expression of a client, in Go's dialect of RE2, so that it matches
// only whole names. The result takes at most 512 KiB. A larger one is refused before its program is
// made: 4 KiB of text can stand for 3 million instructions.
func CompilePattern(s string) (*regexp.Regexp, error) {
	if len(s) > MaxPattern {
		return nil, fmt.Errorf("%w: it has %d bytes, the limit is %d", ErrPatternSize, len(s), MaxPattern)
	}
	re, err := syntax.Parse(s, syntax.Perl) // alone: "a)(b" is valid only inside the parentheses below
	if err != nil {
		return nil, err
	}
	if n := programSize(re); n > maxProgram {
		return nil, fmt.Errorf("%w: it has %d instructions, the limit is %d", ErrPatternSize, n, maxProgram)
	}
	return regexp.Compile(`\A(?:` + s + `)\z`)
}

// programSize returns at least the number of instructions of the program of re, whose repetitions
// are not expanded yet. The ranges of a class count too, in units of the memory of an instruction.
func programSize(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += programSize(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n = 1 + len(re.Rune)/10
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
