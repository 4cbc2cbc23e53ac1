package format

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"
)

// IdentityName is the file that makes a directory a log.
const IdentityName = "MAINSTEM"

// MaxIdentity bounds the bytes of an identity file.
const MaxIdentity = 4 << 10

// Identity is the content of the identity file, text so that a person can read it:
//
//	mainstem log
//	format 3
//	id 01890a5d-ac96-774b-bcce-b302099a8057
//	created 2026-01-02T03:04:05Z
//	crc32c 30c5f6dd
//
// The last line is the CRC-32C of all bytes before it, in hexadecimal.
type Identity struct {
	Format  int
	ID      string
	Created time.Time
}

// Errors of [DecodeIdentity], besides [ErrCorrupt].
var (
	ErrNotALog   = errors.New("not a Mainstem log")
	ErrTooRecent = errors.New("format is newer than this program")
)

const identityTitle = "mainstem log\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendIdentity appends the file's content.
func AppendIdentity(dst []byte, id Identity) []byte {
	start := len(dst)
	dst = fmt.Appendf(dst, "%sformat %d\nid %s\ncreated %s\n", identityTitle, id.Format, id.ID, id.Created.UTC().Format(time.RFC3339))
	return fmt.Appendf(dst, "crc32c %08x\n", crc32.Checksum(dst[start:], castagnoli))
}

// DecodeIdentity reads an identity file. It returns [ErrNotALog] for another
// program's file, [ErrTooRecent] with the format filled in for a newer one, and
// [ErrCorrupt] for anything else that was not written by [AppendIdentity].
func DecodeIdentity(p []byte) (Identity, error) {
	var id Identity
	if len(p) > MaxIdentity || !strings.HasPrefix(string(p), identityTitle) {
		return id, ErrNotALog
	}
	body, sum, ok := cutLast(string(p), "crc32c ")
	if !ok || sum != fmt.Sprintf("%08x\n", crc32.Checksum([]byte(body), castagnoli)) {
		return id, ErrCorrupt
	}
	if _, err := fmt.Sscanf(body[len(identityTitle):], "format %d\n", &id.Format); err != nil {
		return id, ErrCorrupt
	}
	if id.Format > Version {
		return id, ErrTooRecent
	}
	var created string
	if _, err := fmt.Sscanf(body[len(identityTitle):], "format %d\nid %s\ncreated %s\n", &id.Format, &id.ID, &created); err != nil {
		return id, ErrCorrupt
	}
	t, err := time.Parse(time.RFC3339, created)
	if err != nil || id.Format < 1 {
		return id, ErrCorrupt
	}
	id.Created = t
	return id, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
