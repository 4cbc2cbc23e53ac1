package format

import (
	"encoding/binary"
	"sync/atomic"
)

// reader walks bytes; the first read past the end, or malformed number, makes it
// bad and every later read zero.
//
// It keeps an index and not the rest as a slice: to store a pointer costs a write barrier
// while the garbage collector runs, which it does often where many records are read.
type reader struct {
	p   []byte
	at  int // what is before it was read
	bad bool
}

// rest returns what was not read.
func (r *reader) rest() []byte { return r.p[r.at:] }

// left returns the length of what was not read.
func (r *reader) left() int { return len(r.p) - r.at }

func (r *reader) uvarint() uint64 {
	if r.at < len(r.p) && r.p[r.at] < 0x80 {
		r.at++
		return uint64(r.p[r.at-1])
	}
	v, n := binary.Uvarint(r.rest())
	if n <= 0 {
		r.fail()
		return 0
	}
	r.at += n
	return v
}

func (r *reader) fixed64() uint64 {
	if r.left() < 8 {
		r.fail()
		return 0
	}
	r.at += 8
	return binary.LittleEndian.Uint64(r.p[r.at-8:])
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(r.left()) {
		r.fail()
		return nil
	}
	from := r.at
	r.at += int(n)
	return r.p[from:r.at:r.at]
}

// skip is bytes for those that nobody looks at.
func (r *reader) skip(n uint64) {
	if n > uint64(r.left()) {
		r.fail()
		return
	}
	r.at += int(n)
}

// headers returns the encoded headers at the front of r after walking them.
func (r *reader) headers() []byte {
	from := r.at
	n := r.uvarint()
	if n == 0 || n > uint64(r.left()) { // each header takes at least two bytes
		r.fail()
		return nil
	}
	for range n {
		r.skip(r.uvarint())
		if v := r.uvarint(); v > 0 {
			r.skip(v - 1)
		}
		if r.bad {
			return nil
		}
	}
	return r.p[from:r.at]
}

func (r *reader) fail() {
	r.bad = true
	r.at = len(r.p)
}

// internSlots bounds the memory of intern: one name of at most
// internMaxLen bytes per slot.
const (
	internSlots  = 256
	internMaxLen = 32
)

var interned [internSlots]atomic.Pointer[string]

// intern returns b as a string, without an allocation for names seen often: header
// names repeat in every record.
func intern(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > internMaxLen {
		return string(b)
	}
	h := uint32(2166136261)
	for _, c := range b {
		h = (h ^ uint32(c)) * 16777619
	}
	slot := &interned[h%internSlots]
	if s := slot.Load(); s != nil && *s == string(b) {
		return *s
	}
	s := string(b)
	slot.Store(&s)
	return s
}
