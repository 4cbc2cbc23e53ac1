package pebblelog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
)

// sumsName is the file of a backup with the checksums of the other files, in the format of
// sha256sum. It is not part of the log.
const sumsName = "SUMS"

// maxSums is the largest size of that file, in bytes. It suffices for some hundred thousand
// files.
const maxSums = 16 << 20

// sums are the checksums of the files of a backup, by name. Pebble's own checksums are not
// sufficient: a damaged end of a journal looks like the end after a crash.
type sums map[string][sha256.Size]byte

// adder returns a writer that passes its bytes on to w, and the hash of these bytes.
func adder(w io.Writer) (hash.Hash, io.Writer) {
	h := sha256.New()
	return h, io.MultiWriter(h, w)
}

func (s sums) set(name string, h hash.Hash) { s[name] = [sha256.Size]byte(h.Sum(nil)) }

// append appends the text form, in the order of the names.
func (s sums) append(p []byte) []byte {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		sum := s[name]
		p = fmt.Appendf(p, "%s  %s\n", hex.EncodeToString(sum[:]), name)
	}
	return p
}

// check returns an error unless text names the same files with the same sums.
func (s sums) check(text []byte) error {
	if bytes.Equal(text, s.append(nil)) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		sum := s[name]
		if line := hex.EncodeToString(sum[:]) + "  " + name + "\n"; !bytes.Contains(text, []byte(line)) {
			return fmt.Errorf("the file %s is not what its checksum says", name)
		}
	}
	return fmt.Errorf("the file %s names others than there are", sumsName)
}
