package kafka

import (
	"math/bits"
	"sync"
)

// Buffers are kept by size, each class twice the one before.
const (
	minBufferBits = 12 // 4 KiB
	maxBufferBits = 24 // 16 MiB; larger ones are left to the garbage collector
)

var buffers [maxBufferBits - minBufferBits + 1]sync.Pool

// getBuffer returns an empty buffer with room for n bytes. Its bytes beyond the length
// are left over from earlier uses.
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

// putBuffer takes back a buffer that nobody uses any more.
func putBuffer(b []byte) {
	class := bits.Len(uint(cap(b))) - 1 // the largest class for which it has room
	if class < minBufferBits || class > maxBufferBits {
		return
	}
	buffers[class-minBufferBits].Put(&b)
}
