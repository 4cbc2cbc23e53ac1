// Package onearena keeps what the C library allocates in one arena. A program whose logs are in
// directories imports it for this effect:
//
//	import _ "github.com/mainstemdev/mainstem/engine/pebblelog/onearena"
//
// Pebble takes the blocks of its cache from malloc. The one of the GNU C library has up to eight
// arenas for each processor, and a thread takes memory from its own, whatever is free in others.
// The blocks that a cache drops were taken by any thread, so they leave free what other threads
// cannot have, and the process goes on growing although its cache is full: for 64 MiB of blocks
// malloc held 178 MiB after 90 seconds of random puts, and 74 MiB with one arena.
//
// It is a package of its own, and no part of opening a log, because the whole process shares
// malloc: that is for a program to decide, not for a library. The variable MALLOC_ARENA_MAX in the
// environment of the process prevails (mallopt(3)). Without cgo, or with another C library, the
// package does nothing.
package onearena
