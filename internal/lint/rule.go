package lint

import (
	"fmt"
	"slices"
	"strings"
)

// Rule is one thing that this repository does not do.
type Rule struct {
	Name    string
	Because string // why, in a sentence
	Instead string // what to write
	find    func(t *Tree, report reporter)
}

// reporter takes what a rule finds.
type reporter func(at place, format string, args ...any)

// Finding is one place that breaks a rule.
type Finding struct {
	Rule   string
	Path   string // a file or a folder
	Line   int    // 0 means all of it
	Symbol string // the declaration around it, or ""
	What   string
}

// String returns "path:line: in symbol: what [rule]".
func (f Finding) String() string {
	var s strings.Builder
	s.WriteString(f.Path)
	if f.Line > 0 {
		fmt.Fprintf(&s, ":%d", f.Line)
	}
	if f.Symbol != "" {
		s.WriteString(": in " + f.Symbol)
	}
	fmt.Fprintf(&s, ": %s [%s]", f.What, f.Rule)
	return s.String()
}

// Exception allows a rule to be broken in one place.
type Exception struct {
	Rule    string
	Where   string // "path" for a file or a folder and what is below it, "path:Symbol" for one declaration of a file
	Because string
}

func (e Exception) covers(f Finding) bool {
	if e.Rule != f.Rule {
		return false
	}
	file, symbol, ok := strings.Cut(e.Where, ":")
	if ok && symbol != f.Symbol {
		return false
	}
	return f.Path == file || !ok && strings.HasPrefix(f.Path, file+"/")
}

// Check runs rules over t. It returns what breaks them without an exception, and
// the exceptions that cover nothing.
func Check(t *Tree, rules []Rule, exceptions []Exception) (findings []Finding, stale []Exception) {
	used := make([]bool, len(exceptions))
	for _, r := range rules {
		r.find(t, func(at place, format string, args ...any) {
			f := Finding{Rule: r.Name, Path: at.path, Line: at.line, Symbol: at.symbol, What: fmt.Sprintf(format, args...)}
			excepted := false
			for i, e := range exceptions {
				if e.covers(f) {
					used[i], excepted = true, true
				}
			}
			if !excepted {
				findings = append(findings, f)
			}
		})
	}
	for i, e := range exceptions {
		if !used[i] && slices.ContainsFunc(rules, func(r Rule) bool { return r.Name == e.Rule }) {
			stale = append(stale, e)
		}
	}
	return findings, stale
}

// Rules returns all rules.
func Rules() []Rule {
	return slices.Concat(importRules(), banRules(), pauseRules(), leakRules(), commentRules(), sizeRules(), textRules(), markdownRules(), wordRules(), moduleRules())
}
