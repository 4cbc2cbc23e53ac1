// Package invariants holds the checks that are too dear, or too harsh, for a
// program that serves: they run when the program is built with the tag
// "invariants" or with the race detector, and compile to nothing otherwise.
//
//	go test -tags invariants ./engine/...
//
// The tag reaches dependencies too, so it also turns on the checks of Pebble.
//
// An invariant is a statement about the code, never about its input: what a
// caller, a file or a peer can cause is an error, in every build. [Check] panics
// where an invariant is broken, [Mangle] poisons bytes whose loan has ended, so
// that a reader that kept them sees it at once, and [Sometimes] takes the rare
// path often. Work that is needed only for a check stands behind [Enabled], which
// is a constant, so the compiler drops it:
//
//	if invariants.Enabled {
//		invariants.Check(slices.IsSorted(keys), "keys of a group are out of order: %v", keys)
//	}
//
// # Concurrency and ownership
//
// All functions may be called from many goroutines. Mangle writes to its
// argument: only the owner of the bytes may call it.
//
//snippet:var keys []string
package invariants

import (
	"fmt"
	"math/rand/v2"
)

// poison is what [Mangle] writes: neither zero nor text nor a small number.
const poison = 0xCC

// Check panics with the message if ok is false and invariants are on. The format
// says what is broken and shows the values that do not fit.
func Check(ok bool, format string, args ...any) {
	if Enabled && !ok {
		broken(format, args)
	}
}

// Mangle overwrites b if invariants are on. Call it on bytes that were lent out
// when the loan ends.
func Mangle(b []byte) {
	if Enabled {
		for i := range b {
			b[i] = poison
		}
	}
}

// Sometimes returns true in percent of 100 calls, at random, if invariants are
// on, and never otherwise. Use it where both paths are right and one is rare:
// to flush early, to split a group, to miss a cache.
func Sometimes(percent int) bool {
	return Enabled && rand.IntN(100) < percent
}

// broken is apart from Check so that Check is small enough to inline.
func broken(format string, args []any) {
	panic("invariant broken: " + fmt.Sprintf(format, args...))
}
