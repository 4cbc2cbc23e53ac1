// Package feedtopic is what topics have in common that show records of the log to
// Kafka's consumers: event stores, and tables of alerts.
//
// # Words
//
// A [View] says which records a topic shows, and how. A [Topic] serves one: it reads
// batches, finds offsets and ends, and wakes who waits. [Followers] follow the spaces
// that somebody waits for.
//
// # Guarantees
//
// A topic has one partition. The offset of a record is its position in the log, so
// offsets rise, have gaps, and never change. A reader that asks for an offset gets the
// first record at or behind it: what is gone is passed over. The same offset read twice
// with the same limits yields the same bytes, unless records came or went meanwhile. The
// start is always 0. The end is the offset behind the newest record that is shown, so it
// goes back if that one goes; a reader that was there already is told that there is
// nothing new.
//
// # Concurrency and ownership
//
// Everything may be called from many goroutines. Followers own one goroutine for each
// space that somebody waits for. Nothing here writes.
//
// # Limits
//
// [BatchBytes] bounds a batch, unless one record alone is larger.
//
// # Testing
//
// Through the packages that use it.
package feedtopic
