package pebblelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem/internal/format"
)

// Logs of formats 1 and 2 have a write-ahead log of Pebble. It is a sequence of blocks, and each
// block is a sequence of chunks. A record is one full chunk, or a first chunk, any number of
// middle chunks and a last one. Numbers are little-endian, and the checksum covers everything
// from the type on:
//
//	| checksum 4 | length 2 | type 1 | log number 4 | synced 8 | length bytes |
//
// synced is the number of bytes of the file that were on stable storage when the chunk was made.
// Chunks of types 5 to 8 have no such field. Pebble writes these until a new directory has its
// newest format, which is after it has created the first log.
const (
	walBlock       = 32 << 10
	walSyncHeader  = 19 // bytes before the content, types 9 to 12
	walPlainHeader = 11 // types 5 to 8

	walPlainFull, walPlainFirst, walPlainLast = 5, 6, 8
	walSyncFull, walSyncFirst, walSyncLast    = 9, 10, 12
)

var walTable = crc32.MakeTable(crc32.Castagnoli)

// checkWAL returns an error of kind Corrupt if the write-ahead log at path, which Pebble is
// about to replay, is damaged where Pebble would take the damage for the end of the log: a
// record in the middle of a block, a header that looks like the mark of the end, or any record
// in a log whose chunks have no field synced.
//
// After a killed process and after a power cut, a log may end anywhere. So an unreadable chunk
// is damage only if a later chunk proves that it was on stable storage: see [walChunk.proves].
// For the newest record of the log there is no such proof.
//
// It must not be used for logs with lazy groups: they are not synced, whatever their chunks say.
func checkWAL(fs vfs.FS, path string) error {
	name := fs.PathBase(path)
	num, err := strconv.ParseUint(strings.TrimSuffix(name, ".log"), 10, 32)
	if err != nil {
		return nil // not a name of this version of Pebble, which decides
	}
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	at, damaged, err := damagedChunk(f, uint32(num))
	if err == nil && damaged {
		err = fmt.Errorf("write-ahead log %s, damaged at byte %d, was on stable storage beyond it: %w", name, at, format.ErrCorrupt)
	}
	return err
}

// damagedChunk reads the chunks of log num up to the first incomplete one, which is at at, and
// reports whether a later chunk proves that it was complete. It searches the rest of the block
// byte by byte; each further block begins with a chunk.
func damagedChunk(f io.ReaderAt, num uint32) (at int64, damaged bool, err error) {
	buf := make([]byte, walBlock)
	broken := false
	for start := int64(0); ; start += walBlock {
		n, err := f.ReadAt(buf, start)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, false, err
		}
		i, proven := 0, false
		if i, proven = walkChunks(buf[:n], num, at, broken); proven {
			return at, true, nil
		}
		if !broken && (i < n) && !(n == walBlock && padding(buf[i:n])) {
			at, broken = start+int64(i), true
			if searchChunks(buf[i+1:n], num, at) {
				return at, true, nil
			}
		}
		if n < walBlock {
			return 0, false, nil
		}
	}
}

// walkChunks reads the complete chunks at the start of block. It returns where they end and, if
// broken, whether one of them proves that the chunk at at was complete.
func walkChunks(block []byte, num uint32, at int64, broken bool) (end int, proven bool) {
	for {
		c := parseChunk(block[end:], num)
		if c.size == 0 || broken && c.proves(at) {
			return end, c.size > 0
		}
		end += c.size
	}
}

// searchChunks reports whether p has, at any offset, a chunk which proves that the one at at was
// complete.
func searchChunks(p []byte, num uint32, at int64) bool {
	for i := range p {
		if c := parseChunk(p[i:], num); c.size > 0 && c.proves(at) {
			return true
		}
	}
	return false
}

// padding reports whether p, the end of a block, is the padding that Pebble writes if no chunk
// fits.
func padding(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return len(p) < walSyncHeader
}

// walChunk is the header of a complete chunk. A size of 0 means that there is none.
type walChunk struct {
	size   int // bytes, including the header
	kind   byte
	synced uint64 // 0 for types 5 to 8
}

// proves reports whether this chunk, which is behind the one at at, was made after that one was
// on stable storage: its field synced says so, or it begins a record. Every record is synced
// before the next one is begun.
func (c walChunk) proves(at int64) bool {
	switch c.kind {
	case walPlainFull, walPlainFirst, walSyncFull, walSyncFirst:
		return true
	}
	return c.synced > uint64(at)
}

// parseChunk returns the chunk of log num at the start of p.
func parseChunk(p []byte, num uint32) (c walChunk) {
	if len(p) < walPlainHeader || p[6] < walPlainFull || p[6] > walSyncLast || binary.LittleEndian.Uint32(p[7:]) != num {
		return walChunk{}
	}
	header := walSyncHeader
	if p[6] <= walPlainLast {
		header = walPlainHeader
	}
	size := header + int(binary.LittleEndian.Uint16(p[4:]))
	if size > len(p) {
		return walChunk{}
	}
	sum := crc32.Checksum(p[6:size], walTable)
	if binary.LittleEndian.Uint32(p) != (sum>>15|sum<<17)+0xa282ead8 {
		return walChunk{}
	}
	c = walChunk{size: size, kind: p[6]}
	if c.kind >= walSyncFull {
		c.synced = binary.LittleEndian.Uint64(p[11:])
	}
	return c
}
