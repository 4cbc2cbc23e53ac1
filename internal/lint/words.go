package lint

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// wordsFile is the glossary. It lists every word of [retired] in backquotes.
const wordsFile = "docs/words.md"

// retiredWord is a word that is not used any more: it was invented here, or is old, or
// says of code what only people do.
type retiredWord struct {
	names   []string       // as a part of identifiers, in lower case
	prose   *regexp.Regexp // in comments and documents; nil: there it is an ordinary word
	instead string
	in      []string // folders in which it is retired; none means everywhere
}

// retires reports whether the word is retired in a folder.
func (w *retiredWord) retires(dir string) bool {
	return len(w.in) == 0 || anyWithin(dir, w.in)
}

func wordRules() []Rule {
	return []Rule{{
		Name:    "retired-word",
		Because: "a reader who knows Kafka, Raft, Pebble or OTP must recognise every noun, and read no sentence twice",
		Instead: "the term in " + wordsFile,
		find:    findRetiredWords,
	}}
}

func findRetiredWords(t *Tree, report reporter) {
	for at, word := range t.retiredWords {
		if word.retires(path.Dir(at.path)) {
			report(at, "%s is retired: %s", strings.Join(word.names, ", "), word.instead)
		}
	}
}

// retiredWords yields each file in which a word of [retired] stands, with the line of the
// first place, whether or not it is retired there. The glossary may name all of them.
func (t *Tree) retiredWords(yield func(place, *retiredWord) bool) {
	first := map[string]map[*retiredWord]place{} // by the path of the file
	note := func(at place, w *retiredWord) {
		if first[at.path] == nil {
			first[at.path] = map[*retiredWord]place{}
		}
		if _, ok := first[at.path][w]; !ok {
			first[at.path][w] = at
		}
	}
	t.retiredInCode(note)
	for at, line := range t.prose {
		line = inlineCode.ReplaceAllString(line, "")
		for i := range retired {
			if w := &retired[i]; at.path != wordsFile && w.prose != nil && w.prose.MatchString(line) {
				note(at, w)
			}
		}
	}
	for _, words := range first {
		for w, at := range words {
			if !yield(place{path: at.path, line: at.line}, w) {
				return
			}
		}
	}
}

// retiredInCode notes the retired words in the identifiers and comments of Go files. The
// table itself may name them.
func (t *Tree) retiredInCode(note func(place, *retiredWord)) {
	for _, f := range t.files {
		if path.Dir(f.Path) == "internal/lint" {
			continue
		}
		for _, id := range identifiers(f.Syntax) {
			for _, part := range nameParts(id.Name) {
				if w := retiredNames[part]; w != nil {
					note(t.at(f, id), w)
				}
			}
		}
		for _, group := range f.Syntax.Comments {
			for i := range retired {
				if w := &retired[i]; w.prose != nil && w.prose.MatchString(group.Text()) {
					note(t.at(f, group), w)
				}
			}
		}
	}
}

func identifiers(f *ast.File) (found []*ast.Ident) {
	ast.Inspect(f, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			found = append(found, id)
		}
		return true
	})
	return found
}

// retiredNames finds a word of [retired] by a part of an identifier.
var retiredNames = func() map[string]*retiredWord {
	found := map[string]*retiredWord{}
	for i := range retired {
		for _, name := range retired[i].names {
			found[name] = &retired[i]
		}
	}
	return found
}()

// nameParts splits an identifier into its words, in lower case: "readHTTPHead" is read,
// http, head.
func nameParts(name string) (parts []string) {
	runes := []rune(name)
	start := 0
	for i := 1; i <= len(runes); i++ {
		ends := i == len(runes) || runes[i] == '_' || runes[i-1] == '_' ||
			unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if ends {
			parts = append(parts, strings.ToLower(string(runes[start:i])))
			start = i
		}
	}
	return parts
}
