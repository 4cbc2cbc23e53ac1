//go:build !purego

package binary

import _ "unsafe" // for go:linkname

// canAssign reports whether assignString works.
const canAssign = true

// assignString returns the place for the element of a key in a map with keys of
// kind string and elements of at most maxInSlot bytes; a new place is zero. Package
// reflect copies an element into its place instead, which takes about 25 ns an
// entry. The runtime promises to keep this function as it is for those who link to
// it (go.dev/issue/67401); the build tag purego does without.
//
//go:linkname assignString runtime.mapassign_faststr
func assignString(mapType, m pointer, key string) pointer
