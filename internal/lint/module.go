package lint

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The files that every clone has at its root, and what they must agree on.
const (
	licenceFile = "LICENSE"
	readmeFile  = "README.md"
	makeFile    = "Makefile"
	checkFile   = ".ci/run"
	decisions   = "docs/decisions/"
)

func moduleRules() []Rule {
	return []Rule{
		{
			Name:    "licence",
			Because: "code without a licence may not be used by anyone",
			Instead: "the text of the Apache License 2.0 in LICENSE",
			find:    findMissingLicence,
		},
		{
			Name:    "dependency",
			Because: "a dependency is code that we answer for and did not write",
			Instead: "the standard library, or one line of reason with the module path in docs/decisions",
			find:    findUnexplainedDependencies,
		},
		{
			Name:    "test-command",
			Because: "what the README tells a newcomer to run is what must have been run",
			Instead: "the same command, letter by letter, in README.md, in the test target of the Makefile and in readme_test of .ci/run",
			find:    findDifferentTestCommands,
		},
		{
			Name:    "workspace",
			Because: "what tests and benchmarks of the nested modules ask for would decide what the program is built with",
			Instead: "no go.work in the repository: go -C bench run ., or GOWORK set to a file outside of it",
			find:    findWorkspaces,
		},
	}
}

func findMissingLicence(t *Tree, report reporter) {
	text := t.Texts[licenceFile]
	for _, want := range []string{"Apache License", "Version 2.0, January 2004", "END OF TERMS AND CONDITIONS", "limitations under the License."} {
		if !strings.Contains(text, want) {
			report(place{path: licenceFile}, "lacks %q", want)
		}
	}
}

// findUnexplainedDependencies reports the direct dependencies and the tools of
// every go.mod that no decision names in backquotes.
func findUnexplainedDependencies(t *Tree, report reporter) {
	var explained strings.Builder
	for p, text := range t.Texts {
		if strings.HasPrefix(p, decisions) {
			explained.WriteString(text)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(t.Texts)) {
		if path.Base(p) != "go.mod" || !written(p) {
			continue
		}
		for _, need := range needs(t.Texts[p]) {
			if !need.within(t.Module) && !strings.Contains(explained.String(), "`"+need.path+"`") {
				report(place{path: p, line: need.line}, "%s is not explained in %s", need.path, decisions)
			}
		}
	}
}

// need is a direct dependency or a tool of a go.mod.
type need struct {
	path string
	line int
}

func (n need) within(module string) bool { return within(n.path, module) }

// needs reads the direct requirements and the tools of a go.mod.
func needs(text string) []need {
	var found []need
	block, n := "", 0
	for line := range strings.Lines(text) {
		n++
		indirect := strings.Contains(line, "// indirect")
		line, _, _ = strings.Cut(line, "//")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			continue
		case fields[0] == ")":
			block = ""
			continue
		case len(fields) == 2 && fields[1] == "(":
			block = fields[0]
			continue
		case block != "":
			fields = append([]string{block}, fields...)
		}
		if fields[0] == "require" && !indirect || fields[0] == "tool" {
			found = append(found, need{fields[1], n})
		}
	}
	return found
}

// modulePath returns what the module line of a go.mod says.
func modulePath(text string) string {
	for line := range strings.Lines(text) {
		if p, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(p)
		}
	}
	return ""
}

var readmeTest = regexp.MustCompile(`(?m)^readme_test="([^"]+)"$`)

func findDifferentTestCommands(t *Tree, report reporter) {
	m := readmeTest.FindStringSubmatch(t.Texts[checkFile])
	if m == nil {
		report(place{path: checkFile}, `has no line readme_test="..."`)
		return
	}
	command := m[1]
	if !hasLine(t.Texts[readmeFile], command) {
		report(place{path: readmeFile}, "no line of it is the command %q that %s runs", command, checkFile)
	}
	if !strings.Contains("\n"+t.Texts[makeFile], "\n\t"+command+"\n") {
		report(place{path: makeFile}, "no target runs the command %q that %s runs", command, checkFile)
	}
}

func findWorkspaces(t *Tree, report reporter) {
	for _, p := range slices.Sorted(maps.Keys(t.Texts)) {
		if base := path.Base(p); (base == "go.work" || base == "go.work.sum") && written(p) {
			report(place{path: p}, "is a workspace")
		}
	}
}

// hasLine reports whether a line of a document is command, with or without a prompt.
func hasLine(document, command string) bool {
	for line := range strings.Lines(document) {
		line = strings.TrimSpace(line)
		if strings.TrimPrefix(line, "$ ") == command {
			return true
		}
	}
	return false
}
