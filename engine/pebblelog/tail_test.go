package pebblelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
)

const walPath = "/db/000007.log"

// appendWALChunk appends a chunk of log 7 that is a whole record.
func appendWALChunk(p []byte, synced int, content string) []byte {
	c := make([]byte, walHeader, walHeader+len(content))
	binary.LittleEndian.PutUint16(c[4:], uint16(len(content)))
	c[6] = firstWALChunk
	binary.LittleEndian.PutUint32(c[7:], 7)
	binary.LittleEndian.PutUint64(c[11:], uint64(synced))
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

func TestCheckTail(t *testing.T) {
	var synced, lazy []byte
	var ends []int
	for _, content := range []string{"first", "second", "third"} {
		synced = appendWALChunk(synced, len(synced), content)
		lazy = appendWALChunk(lazy, 0, content)
		ends = append(ends, len(synced))
	}
	flip := func(p []byte, i int) []byte {
		p = bytes.Clone(p)
		p[i] ^= 4
		return p
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
		{"second record damaged, nothing promised", flip(lazy, ends[1]-1), false},
		{"cut short", synced[:ends[1]+3], false},
		{"another log's", flip(synced, 7), true}, // by its first chunk only
	} {
		good, whole, err := readableLength(walFS(t, test.log), walPath, 7)
		if err != nil || whole && good != int64(len(test.log)) {
			t.Fatalf("%s: Pebble reads %d of %d bytes, %v", test.name, good, len(test.log), err)
		}
		err = checkTail(walFS(t, test.log), "/db")
		if mapped := mapError("open", err); errors.Is(mapped, mainstem.ErrCorrupt) != test.corrupt || !test.corrupt && err != nil {
			t.Errorf("%s: %v, want corrupt %t", test.name, err, test.corrupt)
		}
	}
}

// FuzzCheckTail puts anything in place of a write-ahead log.
func FuzzCheckTail(f *testing.F) {
	seed := appendWALChunk(appendWALChunk(nil, 0, "first"), 24, "second")
	f.Add(seed, 0)
	f.Add(append(make([]byte, 3), seed...), 3)
	f.Add(make([]byte, walBlock+walHeader), walBlock)
	f.Fuzz(func(t *testing.T, log []byte, good int) {
		if good < 0 || good > len(log) {
			return
		}
		at, broken, err := brokenPromise(bytes.NewReader(log), 7, int64(good))
		if err != nil || at > int64(len(log)) || broken && at < int64(good) {
			t.Errorf("brokenPromise of %x from %d: %d, %t, %v", log, good, at, broken, err)
		}
		if err := checkTail(walFS(t, log), "/db"); err != nil && !errors.Is(mapError("open", err), mainstem.ErrCorrupt) {
			t.Error(err)
		}
	})
}
