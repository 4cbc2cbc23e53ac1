package kafka

import (
	"math/bits"
	"sync"
)

// Buffers of requests, batches and answers are pooled by size. Class i has buffers with a
// capacity of at least 1<<(minBufferBits+i) bytes and less than twice that. Larger or smaller
// buffers are not pooled. Invariant: a buffer is put back at most once, by its last user.
const (
	minBufferBits = 12 // 4 KiB
	maxBufferBits = 24 // 16 MiB; larger ones are left to the garbage collector
)

var buffers [maxBufferBits - minBufferBits + 1]sync.Pool

// getBuffer returns an empty buffer with a capacity of at least n bytes. It may contain bytes
// of earlier uses beyond its length.
func getBuffer(n int) []byte {
	class := max(bits.Len(uint(max(n, 1)-1)), minBufferBits)
	if class > maxBufferBits {
		return make([]byte, 0, n)
	}
	if b, ok := buffers[class-minBufferBits].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 1<<class)
}

// putBuffer puts a buffer, of getBuffer or not, into the pool. Nothing may refer to it any
// more. nil is allowed.
func putBuffer(b []byte) {
	class := bits.Len(uint(cap(b))) - 1 // rounded down, so that getBuffer can rely on the capacity
	if class < minBufferBits || class > maxBufferBits {
		return
	}
	buffers[class-minBufferBits].Put(&b)
}
