package format

import (
	"encoding/binary"
	"sync/atomic"
)

// reader walks bytes; the first read past the end, or malformed number, makes it
// bad and every later read zero.
type reader struct {
	p   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	if len(r.p) > 0 && r.p[0] < 0x80 {
		v := r.p[0]
		r.p = r.p[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.p)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.p = r.p[n:]
	return v
}

func (r *reader) fixed64() uint64 {
	if len(r.p) < 8 {
		r.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.p)
	r.p = r.p[8:]
	return v
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.p)) {
		r.fail()
		return nil
	}
	b := r.p[:n:n]
	r.p = r.p[n:]
	return b
}

// headers returns the encoded headers at the front of r after walking them.
func (r *reader) headers() []byte {
	start := r.p
	n := r.uvarint()
	if n == 0 || n > uint64(len(r.p)) { // each header takes at least two bytes
		r.fail()
		return nil
	}
	for range n {
		r.bytes(r.uvarint())
		if v := r.uvarint(); v > 0 {
			r.bytes(v - 1)
		}
		if r.bad {
			return nil
		}
	}
	return start[:len(start)-len(r.p)]
}

func (r *reader) fail() {
	r.bad = true
	r.p = nil
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
