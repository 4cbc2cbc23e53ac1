package coord

import (
	"regexp"

	"github.com/mainstemdev/mainstem/internal/regex"
)

// MaxPattern is the most bytes of a pattern that a client sends.
const MaxPattern = 4 << 10

// maxProgram limits the instructions of a compiled pattern, which then takes at most 512 KiB.
const maxProgram = 5000

// CompilePattern compiles an expression of a client, in Go's dialect of RE2, so that it matches
// only whole names. One that is too large is a [*regex.TooLargeError].
func CompilePattern(s string) (*regexp.Regexp, error) {
	if len(s) > MaxPattern {
		return nil, &regex.TooLargeError{Size: len(s), Limit: MaxPattern}
	}
	return regex.CompileWhole(s, maxProgram)
}
