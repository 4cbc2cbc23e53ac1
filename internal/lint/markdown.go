package lint

import (
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxMarkdownLine is the most characters of a line of text in a document.
const maxMarkdownLine = 120

func markdownRules() []Rule {
	return []Rule{
		{
			Name:    "long-line",
			Because: "a change of one word in a long line shows the whole line as changed, and two changes of it conflict",
			Instead: "lines of at most 120 characters; tables, code and HTML comments may be longer",
			find:    findLongLines,
		},
		{
			Name:    "decision-title",
			Because: "decisions are cited by number, in the order in which they were made",
			Instead: "a file NNNN-name.md with a number of its own, whose first line is \"# NNNN: Title\"",
			find:    findDecisionTitles,
		},
	}
}

// markdown reports whether p is a document that a person wrote.
func markdown(p string) bool { return written(p) && path.Ext(p) == ".md" }

// prose yields the lines of the documents that are neither code, tables nor HTML comments.
func (t *Tree) prose(yield func(place, string) bool) {
	inFence, inComment := false, false
	for at, line := range t.lines(markdown) {
		if at.line == 1 {
			inFence, inComment = false, false
		}
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			inFence = !inFence
		case inFence || strings.HasPrefix(trimmed, "|"):
		case inComment || strings.HasPrefix(trimmed, "<!--"):
			inComment = !strings.Contains(trimmed, "-->")
		default:
			if !yield(at, line) {
				return
			}
		}
	}
}

func findLongLines(t *Tree, report reporter) {
	for at, line := range t.prose {
		n := utf8.RuneCountInString(line)
		if n > maxMarkdownLine && strings.Contains(strings.TrimSpace(line), " ") {
			report(at, "has %d characters: the limit is %d", n, maxMarkdownLine)
		}
	}
}

var decisionFile = regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)

func findDecisionTitles(t *Tree, report reporter) {
	numbered := map[string]string{} // the path of the first decision of a number
	inDecisions := func(p string) bool { return markdown(p) && strings.HasPrefix(p, decisions) }
	for at, line := range t.lines(inDecisions) {
		if at.line != 1 {
			continue
		}
		m := decisionFile.FindStringSubmatch(path.Base(at.path))
		switch {
		case m == nil:
			report(place{path: at.path}, "the name is not of the form NNNN-name.md")
			continue
		case numbered[m[1]] != "":
			report(place{path: at.path}, "%s has the same number", numbered[m[1]])
		case !strings.HasPrefix(line, "# "+m[1]+": "):
			report(at, "the title does not begin with %q", "# "+m[1]+": ")
		}
		numbered[m[1]] = at.path
	}
}
