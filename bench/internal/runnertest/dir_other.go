//go:build !linux

package runnertest

// memory returns "": there is no place that all systems have.
func memory() string { return "" }
