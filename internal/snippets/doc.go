// Package snippets compiles the Go code that documents show: README.md, the other
// Markdown files, and the comments of packages and declarations. Code that a reader
// copies has to compile.
//
//	go test ./internal/snippets
//
// [Check] finds the snippets of a module and type-checks each with the export data that
// go list -export names, so no program is linked and nothing is fetched. Problems carry
// the path and the line of the document.
//
// # What is a snippet
//
// In Markdown, a block fenced with ```go. Every block of Markdown has to be fenced and to
// name its language, text if it has none, so that none is left out by mistake. In a
// comment, a code block that can be parsed as Go; one that cannot but has a line that only
// Go has, such as an assignment with :=, is a syntax error. Other code blocks of comments
// are commands, tables and drawings.
//
// # How to write one
//
// A complete file, whose first code is a package clause, is compiled as it is.
// Anything else is a fragment: statements, declarations, or both in any order.
//
//   - Packages need no import: a name that nothing declares is the package of that name,
//     of this module or of the standard library.
//   - ctx, err, log, b and t are declared: a context, an error, a [mainstem.Log], a
//     [mainstem.Batch] and a [testing.T].
//   - Whatever else the reader has to imagine is declared before the snippet, in Go, where
//     the reader does not see it. In Markdown that is an HTML comment right above the fence:
//     <!-- snippet: var id string; type User struct{ Name string } -->. In a comment of
//     Go these are lines of the same comment that begin with //snippet: which go doc
//     leaves out and gofmt moves to the end of the comment; they hold for all its blocks.
//     The declarations may hold an import "path" of a package that is in neither place.
//   - "…" or "..." stands for statements or arguments that are left out, where the code
//     compiles without them.
//   - Variables and imports may be unused.
//
// [mainstem.Log]: https://pkg.go.dev/github.com/mainstemdev/mainstem#Log
// [mainstem.Batch]: https://pkg.go.dev/github.com/mainstemdev/mainstem#Batch
package snippets
