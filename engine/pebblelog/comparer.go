package pebblelog

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem/internal/format"
)

// comparer orders keys bytewise. It splits the version off a versioned key, so that bloom
// filters answer whether a key has any version, and iterators can step to the next key. Its name
// is part of the format on disk.
var comparer = func() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "mainstem.v1"
	c.Split = format.PrefixLen
	c.Separator = separator
	c.ImmediateSuccessor = immediateSuccessor
	return &c
}()

// separator returns a short key k with a <= k < b. It never cuts inside a version: a prefix
// would then sort before one of its own keys.
func separator(dst, a, b []byte) []byte {
	pa, pb := a[:format.PrefixLen(a)], b[:format.PrefixLen(b)]
	if bytes.Equal(pa, pb) {
		return append(dst, a...)
	}
	n := len(dst)
	dst = pebble.DefaultComparer.Separator(dst, pa, pb)
	if bytes.Equal(dst[n:], pa) {
		return append(dst[:n], a...)
	}
	return dst
}

func immediateSuccessor(dst, prefix []byte) []byte {
	n := len(prefix)
	versioned := n >= 7 && (prefix[0] == format.TagVersion || prefix[0] == format.TagOlder) &&
		prefix[n-2] == 0x00 && prefix[n-1] == 0x01
	if versioned {
		return format.AppendPrefixEnd(dst, prefix)
	}
	return append(append(dst, prefix...), 0x00)
}
