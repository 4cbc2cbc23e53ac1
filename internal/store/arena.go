package store

// A ref is the place of bytes in the arena of a table: the number of the chunk, the offset in the
// chunk and the length. 0 means none, since the header of a group is at offset 0.
type ref uint64

const (
	offsetBits = 20
	lengthBits = 20

	firstChunk = 4 << 10
	chunkBytes = 1 << offsetBits
)

// MaxGroup is the size, in bytes of effects, of the largest group that the hot tier takes.
const MaxGroup = 512 << 10

func refTo(chunk, offset, length int) ref {
	return ref(chunk)<<(offsetBits+lengthBits) | ref(offset)<<lengthBits | ref(length)
}

// in returns the bytes at r.
func (r ref) in(chunks [][]byte) []byte {
	c := chunks[r>>(offsetBits+lengthBits)]
	from := r >> lengthBits & (1<<offsetBits - 1)
	to := from + r&(1<<lengthBits-1)
	return c[from:to:to]
}

// arena has groups, each of them completely in one chunk. Bytes in it do not change or move, so
// readers need no lock for them.
type arena struct {
	chunks [][]byte // only appended to
	used   int      // bytes used of the last chunk
	size   int      // bytes allocated for all chunks
}

// add copies p, which must have at most MaxGroup bytes, and returns its place.
func (a *arena) add(p []byte) (chunk, offset int) {
	last := len(a.chunks) - 1
	if last < 0 || len(a.chunks[last])-a.used < len(p) {
		n := firstChunk
		if last >= 0 {
			n = min(2*len(a.chunks[last]), chunkBytes)
		}
		n = max(n, len(p))
		a.chunks = append(a.chunks, make([]byte, n))
		a.used, a.size = 0, a.size+n
		last++
	}
	offset = a.used
	a.used += copy(a.chunks[last][offset:], p)
	return last, offset
}
