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

// Logs of formats 1 and 2 have a write-ahead log of Pebble. It is a row of blocks, and each
// block a row of chunks. A record is one full chunk, or a first one, any number of middle
// ones and a last one.
// All numbers are little-endian, and the checksum covers everything from the type on:
//
//	| checksum 4 | length 2 | type 1 | log number 4 | synced 8 | length bytes |
//
// synced is how many bytes of the file were on stable storage when the chunk was made.
// Types 5 to 8 have no such field. Pebble writes them until a new directory has reached
// its newest format, which is after it has created the first log.
const (
	walBlock       = 32 << 10
	walSyncHeader  = 19 // bytes before the content, types 9 to 12
	walPlainHeader = 11 // types 5 to 8

	walPlainFull, walPlainFirst, walPlainLast = 5, 6, 8
	walSyncFull, walSyncFirst, walSyncLast    = 9, 10, 12
)

var walTable = crc32.MakeTable(crc32.Castagnoli)

// checkWAL returns an error of kind Corrupt if the write-ahead log at path, which Pebble
// is about to replay, is damaged where Pebble would take the damage for its end: a
// record in the middle of a block, a header that looks like the mark of the end, any
// record in a log whose chunks do not say what was synced.
//
// A process that was killed and a power cut both leave a log that ends anywhere. So what
// cannot be read is damage only if something behind it proves that it was on stable
// storage: see [walChunk.proves]. The newest record of the log has nothing behind it.
//
// It is not for logs with lazy groups: they are not synced, whatever their chunks say.
func checkWAL(fs vfs.FS, path string) error {
	name := fs.PathBase(path)
	num, err := strconv.ParseUint(strings.TrimSuffix(name, ".log"), 10, 32)
	if err != nil {
		return nil // not a name of Pebble's today: it decides
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

// damagedChunk walks over the chunks of log num to the first that is not whole, at at,
// and reports whether a later one proves that it was. The rest of its block is searched
// byte by byte; further blocks begin with a chunk again.
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

// walkChunks walks over the whole chunks that block begins with and returns where they
// end, and whether one of them proves that the chunk at at was whole, if it is broken.
func walkChunks(block []byte, num uint32, at int64, broken bool) (end int, proven bool) {
	for {
		c := parseChunk(block[end:], num)
		if c.size == 0 || broken && c.proves(at) {
			return end, c.size > 0
		}
		end += c.size
	}
}

// searchChunks reports whether p holds, anywhere, a chunk that proves that the one at at
// was whole.
func searchChunks(p []byte, num uint32, at int64) bool {
	for i := range p {
		if c := parseChunk(p[i:], num); c.size > 0 && c.proves(at) {
			return true
		}
	}
	return false
}

// padding reports whether p, the end of a block, is what Pebble leaves where no chunk
// fits any more.
func padding(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return len(p) < walSyncHeader
}

// walChunk is what the header of a whole chunk says. A size of 0 means that there is none.
type walChunk struct {
	size   int // bytes, header included
	kind   byte
	synced uint64 // 0 for types 5 to 8
}

// proves reports whether this chunk, which stands behind the one at at, was made when
// that one was on stable storage: because it says so, or because it begins a record.
// Every record is synced before the next one is begun.
func (c walChunk) proves(at int64) bool {
	switch c.kind {
	case walPlainFull, walPlainFirst, walSyncFull, walSyncFirst:
		return true
	}
	return c.synced > uint64(at)
}

// parseChunk returns the chunk of log num that p begins with.
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
