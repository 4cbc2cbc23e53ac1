//go:build cgo && linux

package onearena

// #include <stdlib.h>
// #ifdef __GLIBC__
// #include <malloc.h>
//
// // This runs before the Go runtime does, whose first threads would have arenas already.
// __attribute__((constructor)) static void limit_arenas(void) {
// 	if (getenv("MALLOC_ARENA_MAX") == NULL)
// 		mallopt(M_ARENA_MAX, 1);
// }
// #endif
import "C"
