//go:build !purego

// Empty: a package with a file in assembly may declare functions without a body,
// such as assignString.
