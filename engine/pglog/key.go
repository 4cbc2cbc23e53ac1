package pglog

import (
	"bytes"
	"crypto/sha256"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
)

// nameMax is how many bytes of a key an index holds. PostgreSQL's B-trees take entries
// of up to 2,704 bytes: space number, name and mark must fit.
const nameMax = 2560

// name is a key as it is stored: by (first, rest) keys are in the order of their bytes,
// by (first, mark) they are unique.
type name struct {
	first []byte // up to nameMax bytes, of the key's own memory
	rest  []byte // what is beyond
	mark  []byte // the SHA-256 of rest; empty if rest is
}

var empty = []byte{}

func split(key []byte) name {
	if len(key) <= nameMax {
		return name{first: key, rest: empty, mark: empty}
	}
	rest := key[nameMax:]
	mark := sha256.Sum256(rest)
	return name{key[:nameMax:nameMax], rest, mark[:]}
}

// successor returns the first key after all those that start with prefix, nil if there
// is none.
func successor(prefix []byte) []byte {
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] != 0xff {
			out := bytes.Clone(prefix[:n])
			out[n-1]++
			return out
		}
	}
	return nil
}

// bounds are the keys from lower on and below upper. An upper of nil means to the last;
// none means no key at all.
type bounds struct {
	lower, upper []byte
	none         bool
}

func prefixBounds(prefix []byte) bounds {
	if len(prefix) == 0 {
		return bounds{}
	}
	return bounds{lower: prefix, upper: successor(prefix)}
}

func rangeBounds(r mainstem.Range) bounds {
	b := prefixBounds(r.Prefix)
	if bytes.Compare(r.Start, b.lower) > 0 {
		b.lower = r.Start
	}
	if r.End != nil && (b.upper == nil || bytes.Compare(r.End, b.upper) < 0) {
		b.upper = r.End
	}
	b.none = b.upper != nil && bytes.Compare(b.lower, b.upper) >= 0
	return b
}

// number returns v as PostgreSQL's bigint, which has no numbers above.
func number[T ~uint64](v T) int64 { return int64(min(uint64(v), math.MaxInt64)) }

// storable returns the name of a space as a text that PostgreSQL takes: one that is not
// UTF-8, which no space has, becomes the empty one, which no space has either.
func storable(space string) string {
	if !utf8.ValidString(space) || strings.ContainsRune(space, 0) {
		return ""
	}
	return space
}
