//go:build !race

package binary_test

const poolsForget = false
