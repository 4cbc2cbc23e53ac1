// Package result is the file that a run of the bench leaves: what was measured,
// of which contenders, where and how.
//
// A [File] holds the machine, the build, the settings and one [Row] for each
// entry, skipped and failed ones included, with the samples of every round and not
// only their median: its readers can compare it with another.
//
// # Guarantees
//
// [Write] writes what [Read] reads. Read is strict: unknown fields, numbers that are
// not finite, names twice, and anything after the end are errors, and so is a file
// that is larger than [MaxFile]. Files of older versions are read, with what they do not say left
// empty; one of a newer version is refused by its number.
//
// # Concurrency
//
// A File is plain data: not for use by several goroutines while one changes it.
//
// # Testing
//
// FuzzRead feeds Read with anything; what it takes must survive being written.
package result
