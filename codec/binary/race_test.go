//go:build race

package binary_test

// Under the race detector a sync.Pool forgets some of what it is given, so that
// encoding maps allocates.
const poolsForget = true
