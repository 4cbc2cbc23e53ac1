// Package format holds every byte that the embedded engine persists: keys,
// record bodies, feed blocks, space descriptions, receipts and the identity file.
// All functions are pure. Every decoder is bounded by the length of its input,
// never panics and reports [ErrCorrupt]. docs/format.md draws the layout; golden
// files under testdata pin it.
//
// # Keys
//
// A key begins with a tag; numbers in keys are big-endian so that bytewise order
// is numeric order.
//
//	'S' name                            description of a space
//	'T' space(4)                        totals of a space
//	'P'                                 log-wide counters
//	'k' space(4) key                    newest record of a key, bounded history
//	'h' space(4) escaped(key) version(8) older records, bounded history above 1
//	'v' space(4) escaped(key) version(8) records of a key, all history
//	'f' space(4) position(8)            feed block that begins at position
//	'x' time(8) space(4) key version(8) expiry index
//	'i' id                              receipt of a batch with an ID
//	'j' time(8) id                      order in which batch IDs are forgotten
//	'c' position(8)                     the clock was set back after position
//	'c'                                 entries of 'x' and 'j' have yet to be moved
//	'n'                                 number of the newest frame of the journal that is applied
//
// escaped(key) replaces 0x00 by 0x00 0xff and ends with 0x00 0x01, so that no
// escaped key is a prefix of another and order is kept.
package format

import "errors"

// The format versions.
const (
	First     = 1         // the sorted files and their write-ahead log are Pebble's
	Clocked   = 2         // the clock was ahead once: there are 'c' keys, and clock readings apart from times
	Journaled = 3         // groups are frames of a journal: there is an 'n' key, and no write-ahead log of Pebble
	Version   = Journaled // of every new log, and the newest that this package reads
)

// ErrCorrupt is what every decoder returns for bytes it cannot have written.
var ErrCorrupt = errors.New("malformed bytes")
