package lint

import (
	"path"
	"strconv"
	"strings"
)

// unwanted is a package that this repository does not import, in tests neither.
type unwanted struct {
	path    string // with all below it
	but     string // a folder that may, with all below it; "" for none
	shown   bool   // examples may: they show a whole program in few lines
	because string
	instead string
}

var unwantedImports = []unwanted{
	{path: "log", shown: true, because: "its output has no levels and no fields, and Fatal ends the program without Close", instead: "a *slog.Logger from the options"},
	{path: "math/rand", because: "v1 has a global lock and weak generators", instead: "math/rand/v2, seeded and logged in tests"},
	{path: "encoding/gob", but: "codec", because: "gob bytes depend on the types of the program that wrote them", instead: "internal/format for what we persist, package codec for values of users"},
	{path: "io/ioutil", because: "it is deprecated", instead: "io and os"},
	{path: "unsafe", because: "a slice that lies about its owner breaks the law Exact", instead: "a copy, or a lent slice as the contract describes it"},
	{path: "database/sql", because: "it hides what a driver knows about an outcome", instead: "the driver's own interface"},
	{path: "github.com/pkg/errors", because: "the standard library does it", instead: "errors and fmt.Errorf with %w"},
	{path: "github.com/stretchr/testify", because: "one way to compare and fail is enough", instead: "testing and github.com/google/go-cmp/cmp"},
	{path: "github.com/golang/mock", because: "a mock agrees with its author", instead: "internal/testengines or enginetest/model"},
	{path: "go.uber.org/mock", because: "a mock agrees with its author", instead: "internal/testengines or enginetest/model"},
	{path: "github.com/golang/protobuf", because: "it is the old API", instead: "google.golang.org/protobuf"},
	{path: "github.com/gogo/protobuf", because: "it is no longer maintained", instead: "google.golang.org/protobuf"},
	{path: "github.com/cockroachdb/pebble", because: "v1 lacks the file systems that our crash tests use", instead: "github.com/cockroachdb/pebble/v2"},
	{path: "golang.org/x/exp", because: "it promises nothing", instead: "slices, maps and cmp of the standard library"},
}

// matches reports whether u forbids an import path. The path of a major version
// from 2 on is another module.
func (u unwanted) matches(imported string) bool {
	rest, ok := strings.CutPrefix(imported, u.path)
	if !ok || rest != "" && rest[0] != '/' {
		return false
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	if n, ok := strings.CutPrefix(major, "v"); ok {
		if _, err := strconv.Atoi(n); err == nil {
			return false
		}
	}
	return !standard(u.path) || rest == ""
}

func importRules() []Rule {
	return []Rule{
		{
			Name:    "import-table",
			Because: "the import table (Layers) is the architecture; a shortcut through it ties an engine to a view for good",
			Instead: "hand the value in from the server, the command or the test; if the table is wrong, change it and record why in docs/decisions",
			find:    findImportsOutsideTable(Layers),
		},
		{
			Name:    "unwanted-import",
			Because: "each of these has a better way here",
			Instead: "what the finding names",
			find:    findUnwantedImports,
		},
	}
}

func findImportsOutsideTable(layers []Layer) func(*Tree, reporter) {
	return func(t *Tree, report reporter) {
		for _, p := range t.Packages {
			layer := layerOf(layers, p.Dir)
			if layer == nil {
				report(place{path: p.Dir}, "the folder is in no layer of the import table")
				continue
			}
			for _, f := range p.Files {
				for _, spec := range f.Syntax.Imports {
					imported, _ := strconv.Unquote(spec.Path.Value)
					if !f.Test && !layer.allows(t.Module, p.Dir, imported) {
						report(t.at(f, spec), "%s imports %s: %s", layer.Name, imported, layer.Because)
					}
				}
			}
		}
	}
}

func findUnwantedImports(t *Tree, report reporter) {
	for p, f := range t.files {
		for _, spec := range f.Syntax.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			for _, u := range unwantedImports {
				if u.matches(imported) && (u.but == "" || !within(p.Dir, u.but)) && !(u.shown && shows(p, f)) {
					report(t.at(f, spec), "imports %s: %s; use %s", imported, u.because, u.instead)
				}
			}
		}
	}
}

// shows reports whether a file is an example: of a test, or a program.
func shows(p *Package, f *File) bool {
	return within(p.Dir, "examples") || f.Test && strings.HasPrefix(path.Base(f.Path), "example")
}

// layerOf returns the layer whose folder is the longest prefix of dir, nil if
// there is none.
func layerOf(layers []Layer, dir string) *Layer {
	var found *Layer
	longest := -1
	for i := range layers {
		for _, d := range layers[i].Dirs {
			if within(dir, d) && len(d) > longest {
				found, longest = &layers[i], len(d)
			}
		}
	}
	return found
}

// within reports whether dir is parent or below it. Nothing is below ".".
func within(dir, parent string) bool {
	return dir == parent || strings.HasPrefix(dir, parent+"/")
}

// allows returns whether code in dir may import the package at imported.
func (l *Layer) allows(module, dir, imported string) bool {
	inside, ours := relative(module, imported)
	if !ours {
		return standard(imported) || anyWithin(imported, l.Libs)
	}
	for _, d := range l.Dirs {
		if within(dir, d) && within(inside, d) {
			return true
		}
	}
	return anyWithin(inside, l.May)
}

func anyWithin(p string, parents []string) bool {
	for _, parent := range parents {
		if parent == anything || within(p, parent) {
			return true
		}
	}
	return false
}

// relative returns the folder of an import path of this module.
func relative(module, imported string) (dir string, ours bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// standard reports whether an import path is of the standard library: no other
// path begins with a name without a dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}
