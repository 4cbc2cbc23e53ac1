package pebblelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
)

const walPath = "/db/000007.log"

// appendWALChunk appends a chunk of log 7 that is a whole record.
func appendWALChunk(p []byte, synced int, content string) []byte {
	c := make([]byte, walSyncHeader, walSyncHeader+len(content))
	binary.LittleEndian.PutUint64(c[11:], uint64(synced))
	return sealWALChunk(p, c, walSyncFull, content)
}

// appendPlainChunk appends a chunk of log 7 that is a whole record and does not say what
// was synced.
func appendPlainChunk(p []byte, content string) []byte {
	return sealWALChunk(p, make([]byte, walPlainHeader, walPlainHeader+len(content)), walPlainFull, content)
}

func sealWALChunk(p, c []byte, kind byte, content string) []byte {
	binary.LittleEndian.PutUint16(c[4:], uint16(len(content)))
	c[6] = kind
	binary.LittleEndian.PutUint32(c[7:], 7)
	c = append(c, content...)
	sum := crc32.Checksum(c[6:], walTable)
	binary.LittleEndian.PutUint32(c, (sum>>15|sum<<17)+0xa282ead8)
	return append(p, c...)
}

func walFS(t testing.TB, content []byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/db", 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create(walPath, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Clone(content)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestCheckWAL(t *testing.T) {
	var synced, unsaid, plain []byte
	var ends, plainEnds []int
	for _, content := range []string{"first", "second", "third"} {
		synced = appendWALChunk(synced, len(synced), content)
		unsaid = appendWALChunk(unsaid, 0, content)
		plain = appendPlainChunk(plain, content)
		ends, plainEnds = append(ends, len(synced)), append(plainEnds, len(plain))
	}
	flip := func(p []byte, i int) []byte {
		p = bytes.Clone(p)
		p[i] ^= 4
		return p
	}
	// A header with the number of the next log is the mark of the end.
	ending := func(p []byte, i int) []byte {
		p = bytes.Clone(p)
		p[i+7]++
		return p
	}
	block := func(synced int) []byte { // one chunk and padding
		p := appendWALChunk(nil, synced, strings.Repeat("x", walBlock-walSyncHeader-walSyncHeader+1))
		return append(p, make([]byte, walBlock-len(p))...)
	}
	last := func(synced int) []byte { // chunk of a record that began before it
		c := make([]byte, walSyncHeader)
		binary.LittleEndian.PutUint64(c[11:], uint64(synced))
		return sealWALChunk(nil, c, walSyncLast, "x")
	}
	for _, test := range []struct {
		name    string
		log     []byte
		corrupt bool
	}{
		{"whole", synced, false},
		{"empty", nil, false},
		{"first record damaged", flip(synced, 2), true},
		{"second record damaged", flip(synced, ends[1]-1), true},
		{"length of the second record damaged", flip(synced, ends[0]+4), true},
		{"third record damaged: nothing tells", flip(synced, ends[2]-1), false},
		{"second record damaged, and another one follows", flip(unsaid, ends[1]-1), true},
		{"cut short", synced[:ends[1]+3], false},
		{"another log's", flip(synced, 7), true}, // by its first chunk only
		{"second record looks like the end", ending(synced, ends[0]), true},
		{"the end", append(bytes.Clone(synced), ending(synced, 0)[:walSyncHeader]...), false},
		{"plain and whole", plain, false},
		{"first plain record damaged", flip(plain, 2), true},
		{"second plain record damaged", flip(plain, plainEnds[1]-1), true},
		{"second plain record looks like the end", ending(plain, plainEnds[0]), true},
		{"third plain record damaged: nothing tells", flip(plain, plainEnds[2]-1), false},
		{"damaged, and two blocks follow", append(flip(block(0), 2), block(walBlock)...), true},
		{"damaged, and what follows belongs to it", append(flip(block(0), 2), last(walBlock-1)...), true},
		{"torn, and what follows belongs to it", append(flip(block(0), 2), last(0)...), false},
	} {
		err := checkWAL(walFS(t, test.log), walPath)
		if mapped := mapError("open", err); errors.Is(mapped, mainstem.ErrCorrupt) != test.corrupt || !test.corrupt && err != nil {
			t.Errorf("%s: %v, want corrupt %t", test.name, err, test.corrupt)
		}
	}
}

// TestNewLogSaysWhatIsSynced looks at the chunks that the first commits of a new log are
// FuzzCheckWAL puts anything in place of a write-ahead log.
func FuzzCheckWAL(f *testing.F) {
	seed := appendWALChunk(appendWALChunk(nil, 0, "first"), 24, "second")
	f.Add(seed)
	f.Add(append(make([]byte, 3), seed...))
	f.Add(appendPlainChunk(make([]byte, 5), "plain"))
	f.Add(make([]byte, walBlock+walSyncHeader))
	f.Fuzz(func(t *testing.T, log []byte) {
		at, damaged, err := damagedChunk(bytes.NewReader(log), 7)
		if err != nil || at > int64(len(log)) {
			t.Errorf("damagedChunk of %x: %d, %t, %v", log, at, damaged, err)
		}
		if err := checkWAL(walFS(t, log), walPath); errors.Is(mapError("open", err), mainstem.ErrCorrupt) != damaged {
			t.Error(err)
		}
	})
}
