package binary

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// uvarint returns the varint at pos, and the position after it; -1 if there is none.
func uvarint(src []byte, pos int) (uint64, int) {
	if uint(pos) >= uint(len(src)) || src[pos] >= 0x80 {
		return longUvarint(src, pos)
	}
	return uint64(src[pos]), pos + 1
}

func longUvarint(src []byte, pos int) (uint64, int) {
	u, n := binary.Uvarint(src[pos:])
	if n <= 0 {
		return 0, -1
	}
	return u, pos + n
}

func (d *decoder) uvarint() (uint64, error) {
	u, next := uvarint(d.src, d.pos)
	if next < 0 {
		return 0, d.noVarint(d.pos)
	}
	d.pos = next
	return u, nil
}

// noVarint says why there is no varint at pos.
func (d *decoder) noVarint(pos int) error {
	d.pos = pos
	if _, n := binary.Uvarint(d.src[pos:]); n < 0 {
		return malformed("an integer has more than 64 bits")
	}
	return errShort
}

var errShort = fmt.Errorf("%w: it ends too early", ErrMalformed)

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// varint reads a zigzag integer.
func (d *decoder) varint() (int64, error) {
	u, err := d.uvarint()
	return unzigzag(u), err
}

// take returns the next n bytes, of which the input may hold less.
func (d *decoder) take(n int) ([]byte, error) {
	if len(d.src)-d.pos < n {
		return nil, errShort
	}
	b := d.src[d.pos : d.pos+n]
	d.pos += n
	return b, nil
}

// length reads a length or count, which is at most the number of bytes left.
func (d *decoder) length() (int, error) {
	u, err := d.uvarint()
	if err == nil && u > uint64(len(d.src)-d.pos) {
		err = malformed("a length of %d is more than the %d bytes that are left", u, len(d.src)-d.pos)
	}
	return int(u), err
}

func (d *decoder) bytes() ([]byte, error) {
	n, err := d.length()
	if err != nil {
		return nil, err
	}
	return d.take(n)
}

// text reads a string. It keeps what *p holds if that is the same.
func (d *decoder) text(p *string) error {
	u, begin := uvarint(d.src, d.pos)
	if begin < 0 || u > uint64(len(d.src)-begin) {
		_, err := d.length()
		return err
	}
	d.pos = begin + int(u)
	return d.setText(p, begin, int(u))
}

// setText sets *p to n bytes of the input: to what is in the window, which it
// moves there unless they are too many for one.
func (d *decoder) setText(p *string, begin, n int) error {
	if n == len(*p) && *p == string(d.src[begin:begin+n]) {
		return nil
	}
	at, size := begin-d.window.begin, n
	switch {
	case n == 0:
		*p = ""
		return nil
	case at+n <= len(d.window.text):
		*p = d.window.text[at : at+n]
		return nil
	case d.texts && n <= maxWindow/2:
		size = min(maxWindow, len(d.src)-begin)
	}
	if err := d.charge(size, 1); err != nil {
		return err
	}
	s := string(d.src[begin : begin+size])
	*p = s[:n]
	if size > n {
		d.window.begin, d.window.text = begin, s
	}
	return nil
}

// charge takes the memory of n values of some size out of the budget, with what
// the runtime may add: it hands out memory in classes of sizes and in pages.
func (d *decoder) charge(n int, size uintptr) error {
	over, bytes := bits.Mul64(uint64(n), uint64(size))
	bytes += bytes/4 + 16
	if over != 0 || bytes > uint64(d.window.budget) {
		return errBudget
	}
	d.window.budget -= int(bytes)
	return nil
}

var errBudget = fmt.Errorf("%w: the value needs more memory than one decode may allocate (Options.MaxAlloc)", ErrLimit)

// enter goes down one level. After an error nobody goes up again.
func (d *decoder) enter() error {
	if d.depth--; d.depth < 0 {
		return tooDeep(d.reg.opts.MaxDepth)
	}
	return nil
}

func (d *decoder) header() (k kind, isNil bool, err error) {
	if d.pos >= len(d.src) {
		return 0, false, errShort
	}
	b := d.src[d.pos]
	if b&0xf0 != version {
		return 0, false, malformed("the header %#02x is not of version %d of this format", b, version>>4)
	}
	d.pos++
	return kind(b & kindMask), b&flagNil != 0, nil
}

func (d *decoder) containerHeader() (kinds byte, n int, err error) {
	if d.pos >= len(d.src) {
		return 0, 0, errShort
	}
	kinds = d.src[d.pos]
	d.pos++
	if kinds >= 0x80 && kinds < noKey {
		return 0, 0, malformed("%#02x is no byte of kinds", kinds)
	}
	n, err = d.length()
	return kinds, n, err
}

func (d *decoder) present() (bool, error) {
	b, err := d.take(1)
	if err != nil {
		return false, err
	}
	if b[0] > 1 {
		return false, malformed("%#02x stands where 0 for nil or 1 is due", b[0])
	}
	return b[0] == 1, nil
}
