//go:build purego

package binary

// canAssign reports whether assignString works.
const canAssign = false

func assignString(_, _ pointer, _ string) pointer { return nil }
