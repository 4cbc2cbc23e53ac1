package lint

import (
	"go/ast"
	"slices"
	"strings"
)

// The sizes beyond which a reader has to scroll twice. Usual is a third of them.
const (
	maxFileLines     = 600
	maxFunctionLines = 80
	maxTestLines     = 120 // a test function: a table may be long, logic may not
)

// vague are package names that say nothing about what is inside.
var vague = []string{"base", "common", "core", "helper", "helpers", "misc", "shared", "tools", "types", "util", "utils"}

func sizeRules() []Rule {
	return []Rule{
		{
			Name:    "file-size",
			Because: "a reader keeps one thing in mind at a time, and a file is about one thing",
			Instead: "two files, each named for its type or its verb",
			find:    findLongFiles,
		},
		{
			Name:    "function-size",
			Because: "a function that does not fit a screen is understood in parts, so it has parts",
			Instead: "functions named for the parts; a dispatcher only dispatches, a test keeps its cases in a table outside",
			find:    findLongFunctions,
		},
		{
			Name:    "package-name",
			Because: "a package named for nothing collects everything",
			Instead: "the noun for what it provides",
			find:    findVaguePackages,
		},
	}
}

func findLongFiles(t *Tree, report reporter) {
	for _, f := range t.files {
		if n := strings.Count(t.Texts[f.Path], "\n"); n > maxFileLines {
			report(place{path: f.Path}, "has %d lines: the limit is %d", n, maxFileLines)
		}
	}
}

func findLongFunctions(t *Tree, report reporter) {
	for _, f := range t.files {
		limit := maxFunctionLines
		if f.Test {
			limit = maxTestLines
		}
		for _, d := range f.Syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
			if n > limit {
				report(t.at(f, fn), "%s has %d lines: the limit is %d", funcName(fn), n, limit)
			}
		}
	}
}

func findVaguePackages(t *Tree, report reporter) {
	for _, p := range t.Packages {
		if slices.Contains(vague, p.Name) {
			report(place{path: p.Dir}, "the name %s does not say what the package provides", p.Name)
		}
	}
}
