//go:build !linux

package racetest

// memory returns "": there is no place that all systems have.
func memory() string { return "" }
