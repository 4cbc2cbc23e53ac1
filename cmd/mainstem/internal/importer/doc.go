// Package importer writes the rows of a file in batches: what the commands that import have in
// common, whatever they write.
//
//	mainstem kv import users users.csv --key '{{.id}}'
//
// A command adds [Options] to its flags and calls [Run] with a [Target], which makes writes of
// rows. Package rows reads the file.
//
// # Guarantees
//
// Rows are committed in their order. A line that cannot be written is reported by its number and
// left out; the lines beside it are written. A batch has an ID, so that an attempt whose outcome
// is unknown can be made again. An import that is stopped says from which line to go on, and
// whether lines from there on may be written already.
//
// # Concurrency and ownership
//
// One goroutine reads, another commits. A [Report] belongs to the one that commits.
package importer
