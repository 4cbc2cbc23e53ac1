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

// A write-ahead log of Pebble is a row of blocks, and each block a row of chunks:
//
//	| checksum 4 | length 2 | type 1 | log number 4 | synced 8 | length bytes |
//
// all little-endian. The checksum covers everything from the type on; synced is how
// many bytes of the file were on stable storage when the chunk was made.
const (
	walBlock  = 32 << 10
	walHeader = 19
	// Types of chunks with all these fields.
	firstWALChunk, lastWALChunk = 9, 12
)

var walTable = crc32.MakeTable(crc32.Castagnoli)

// checkTail returns an error if the newest write-ahead log in dir is damaged where
// Pebble would take it for one that a crash cut short. Pebble looks for a chunk
// that promises more than the log holds from the next block on; here the rest of
// the block is searched. Not for a log with lazy groups: their promises are too large.
func checkTail(fs vfs.FS, dir string) error {
	logs, err := walFiles(fs, dir)
	if err != nil || len(logs) == 0 {
		return err
	}
	name := logs[len(logs)-1]
	num, err := strconv.ParseUint(strings.TrimSuffix(name, ".log"), 10, 32)
	if err != nil {
		return nil // not a name of Pebble's today: it decides
	}
	path := fs.PathJoin(dir, name)
	good, whole, err := readableLength(fs, path, num)
	if err != nil || whole {
		return err
	}
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	at, broken, err := brokenPromise(f, uint32(num), good)
	if err == nil && broken {
		err = fmt.Errorf("write-ahead log %s, damaged at byte %d, was on stable storage beyond it: %w", name, at, format.ErrCorrupt)
	}
	return err
}

// brokenPromise goes on from the record at good, which cannot be read, to the chunk
// that is damaged. It returns where that is, and whether a chunk after it in its
// block says that it was on stable storage.
func brokenPromise(f io.ReaderAt, num uint32, good int64) (at int64, broken bool, err error) {
	buf := make([]byte, walBlock)
	for start := good - good%walBlock; ; start += walBlock {
		n, err := f.ReadAt(buf, start)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, false, err
		}
		block := buf[:n]
		i := int(max(good-start, 0))
		for {
			size, _ := walChunk(block[min(i, n):], num)
			if size == 0 {
				break
			}
			i += size
		}
		if i+walHeader <= n {
			return start + int64(i), promises(block[i+1:], num, uint64(start)+uint64(i)), nil
		}
		if n < walBlock {
			return 0, false, nil
		}
	}
}

// promises reports whether p holds a chunk that says that more than so many bytes
// of its file were on stable storage.
func promises(p []byte, num uint32, bytes uint64) bool {
	for i := range p {
		if size, synced := walChunk(p[i:], num); size > 0 && synced > bytes {
			return true
		}
	}
	return false
}

// walChunk returns the size of the chunk of log num that p begins with, 0 if there
// is no whole one, and what it says of the file.
func walChunk(p []byte, num uint32) (size int, synced uint64) {
	if len(p) < walHeader || p[6] < firstWALChunk || p[6] > lastWALChunk || binary.LittleEndian.Uint32(p[7:]) != num {
		return 0, 0
	}
	size = walHeader + int(binary.LittleEndian.Uint16(p[4:]))
	if size > len(p) {
		return 0, 0
	}
	sum := crc32.Checksum(p[6:size], walTable)
	if binary.LittleEndian.Uint32(p) != (sum>>15|sum<<17)+0xa282ead8 {
		return 0, 0
	}
	return size, binary.LittleEndian.Uint64(p[11:])
}
