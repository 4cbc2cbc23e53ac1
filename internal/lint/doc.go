// Package lint holds the rules of this repository and checks them as tests: what
// may import what, which calls are not made, how code and documents are written.
//
//	go test ./internal/lint
//
// A [Rule] says what it forbids, why, and what to write instead; its test fails
// with all three. [Load] reads the repository once, [Check] runs rules over it.
// Where a rule is right to be broken, [Exceptions] names the place and the
// reason; an exception that nothing needs any more fails too, so the list cannot
// rot. Every rule has a planted violation in the tests that proves it can fail.
//
// The import table ([Layers]) is the architecture as data: it says for each
// folder what it may import and why.
//
// # Adding a rule
//
// Write a function that reports findings, add it to [Rules] with its reason and
// the better way, and plant a violation in planted_test.go: a rule without one
// fails the tests.
//
// # Limits
//
// Rules see syntax, not types: a name is taken for an imported package if the
// file imports a package under that name. Code in testdata folders and generated
// code is left alone. Rules about code apply to the nested modules too.
package lint
