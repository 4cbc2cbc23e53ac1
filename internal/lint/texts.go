package lint

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

func textRules() []Rule {
	return []Rule{
		{
			Name:    "promise",
			Because: "a note about later work is read by everybody and done by nobody",
			Instead: "the work itself, or an issue",
			find:    findPromises,
		},
		{
			Name:    "machine-path",
			Because: "a path of one machine means nothing, or something else, on all others",
			Instead: "a path relative to the repository, t.TempDir(), or a flag",
			find:    findMachinePaths,
		},
		{
			Name:    "dead-link",
			Because: "a reader who meets one dead link trusts none of the others",
			Instead: "a path that exists, relative to the document",
			find:    findDeadLinks,
		},
	}
}

// The patterns are put together so that this file does not match itself.
var (
	promises     = regexp.MustCompile(`\b(` + `TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)
	machinePaths = regexp.MustCompile(`(?:^|[^\w.\-/])/(?:` + `home|Users|root|work|tmp/` + `bash)[/_.][\w.\-]`)
	links        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	inlineCode   = regexp.MustCompile("`[^`]*`")
)

func findPromises(t *Tree, report reporter) {
	for _, f := range t.files {
		for _, group := range f.Syntax.Comments {
			for _, c := range group.List {
				if word := promises.FindString(c.Text); word != "" {
					report(t.at(f, c), "a comment says %s", word)
				}
			}
		}
	}
	notGo := func(p string) bool { return written(p) && path.Ext(p) != ".go" }
	for at, line := range t.lines(notGo) {
		if word := promises.FindString(line); word != "" {
			report(at, "the line says %s", word)
		}
	}
}

// written reports whether a person wrote the text at p: not a checksum, the
// licence, or what tests compare with.
func written(p string) bool {
	return path.Base(p) != "go.sum" && p != "LICENSE" && !slices.Contains(strings.Split(p, "/"), "testdata")
}

func findMachinePaths(t *Tree, report reporter) {
	everywhere := func(p string) bool { return path.Base(p) != "go.sum" }
	for at, line := range t.lines(everywhere) {
		if found := machinePaths.FindString(line); found != "" {
			report(at, "names the path %s... of one machine", strings.TrimLeft(found, "\"'`( \t="))
		}
	}
}

func findDeadLinks(t *Tree, report reporter) {
	inFence := false
	for at, line := range t.lines(markdown) {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		inFence = (inFence && at.line > 1) != fence
		if inFence || fence {
			continue // code: an instance of a generic type looks like a link
		}
		line = inlineCode.ReplaceAllString(line, "")
		for _, m := range links.FindAllStringSubmatch(line, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, ":") {
				continue // a place in the same document, or elsewhere on the network
			}
			if !t.exists(path.Join(path.Dir(at.path), target)) {
				report(at, "links to %s, which does not exist", target)
			}
		}
	}
}

// exists reports whether p is a text, or a folder with one.
func (t *Tree) exists(p string) bool {
	if _, ok := t.Texts[p]; ok || t.Others[p] || p == "." {
		return true
	}
	for known := range t.Texts {
		if strings.HasPrefix(known, p+"/") {
			return true
		}
	}
	return false
}
