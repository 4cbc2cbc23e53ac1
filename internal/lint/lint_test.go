package lint

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// load reads the repository that the tests run in.
func load(t *testing.T) *Tree {
	t.Helper()
	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestRepository(t *testing.T) {
	tree := load(t)
	rules := Rules()
	findings, _ := Check(tree, rules, Exceptions)
	for _, r := range rules {
		t.Run(r.Name, func(t *testing.T) {
			n := 0
			for _, f := range findings {
				if f.Rule == r.Name {
					t.Error(f)
					n++
				}
			}
			if n > 0 {
				t.Logf("why: %s", r.Because)
				t.Logf("write instead: %s", r.Instead)
			}
		})
	}
}

func TestExceptionsAreNeededAndExplained(t *testing.T) {
	rules := Rules()
	_, stale := Check(load(t), rules, Exceptions)
	for _, e := range stale {
		t.Errorf("the exception from %s for %s covers nothing any more: remove it", e.Rule, e.Where)
	}
	for _, e := range Exceptions {
		if len(e.Because) < 20 {
			t.Errorf("the exception from %s for %s gives no reason", e.Rule, e.Where)
		}
		if !slices.ContainsFunc(rules, func(r Rule) bool { return r.Name == e.Rule }) {
			t.Errorf("the exception for %s is from %s, which is no rule", e.Where, e.Rule)
		}
	}
}

func TestLayersExist(t *testing.T) {
	tree := load(t)
	for _, l := range Layers {
		if l.Because == "" {
			t.Errorf("layer %s gives no reason", l.Name)
		}
	}
	known := func(dir string) bool {
		return slices.ContainsFunc(tree.Packages, func(p *Package) bool { return within(p.Dir, dir) })
	}
	for _, l := range Layers {
		if slices.Contains(l.May, anything) {
			continue
		}
		for _, dir := range slices.Concat(l.Dirs, l.May) {
			if !known(dir) {
				t.Errorf("layer %s names the folder %s, which holds no Go code", l.Name, dir)
			}
		}
	}
}

// The glossary lists every word that is retired.
func TestGlossaryListsRetiredWords(t *testing.T) {
	glossary := load(t).Texts[wordsFile]
	for _, w := range retired {
		for _, name := range w.names {
			if !strings.Contains(glossary, "`"+name+"`") {
				t.Errorf("%s does not list %q", wordsFile, name)
			}
		}
	}
}
