package binary

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// container appends a list or map that is not nil.
func (e *encoder) container(dst []byte, pr *program, p pointer) ([]byte, error) {
	if e.depth--; e.depth < 0 {
		return dst, tooDeep(e.reg.opts.MaxDepth)
	}
	dst = append(dst, pr.kinds)
	var err error
	switch {
	case pr.op == opStrings:
		list := *at[[]string](p)
		dst = appendUvarint(dst, uint64(len(list)))
		for _, s := range list {
			dst = appendString(dst, s)
		}
	case pr.op == opSlice:
		h := header(p)
		dst, err = e.elements(dst, pr.elem, h.data, h.len)
	case pr.op == opArray:
		dst, err = e.elements(dst, pr.elem, p, pr.length)
	case pr.op == opStringMap && !e.reg.opts.SortMaps:
		m := *at[map[string]string](p)
		dst = appendUvarint(dst, uint64(len(m)))
		for k, v := range m {
			dst = appendString(appendString(dst, k), v)
		}
	default:
		dst, err = e.mapping(dst, pr, p)
	}
	if err == nil && len(dst) > e.limit {
		err = e.checkSize(dst)
	}
	e.depth++
	return dst, err
}

func (e *encoder) elements(dst []byte, elem *program, p pointer, n int) ([]byte, error) {
	dst = appendUvarint(dst, uint64(n))
	switch elem.op {
	case opInt64:
		for i := range n {
			dst = appendVarint(dst, *at[int64](offset(p, uintptr(i)*8)))
		}
		return dst, nil
	case opFloat64:
		dst = slices.Grow(dst, 8*n)
		for i := range n {
			dst = binary.LittleEndian.AppendUint64(dst, *at[uint64](offset(p, uintptr(i)*8)))
		}
		return dst, nil
	}
	var err error
	for i := range n {
		if dst, err = e.element(dst, elem, offset(p, uintptr(i)*elem.size)); err != nil {
			return dst, inElement(i, err)
		}
	}
	return dst, nil
}

// element appends a value of a container, with a byte before it that tells nil
// apart if its type has a nil.
func (e *encoder) element(dst []byte, pr *program, p pointer) ([]byte, error) {
	if pr.nilable {
		if pr.isNil(p) {
			return append(dst, 0), nil
		}
		dst = append(dst, 1)
	}
	return e.value(dst, pr, p)
}

func (e *encoder) mapping(dst []byte, pr *program, p pointer) ([]byte, error) {
	en := pr.takeEntry(p)
	dst = appendUvarint(dst, uint64(en.m.Len()))
	en.iter.Reset(en.m)
	first := len(dst)
	ends := en.ends[:0]
	for i := 0; en.iter.Next(); i++ {
		begin := len(dst)
		keyAt, elemAt := en.addresses()
		var err error
		if pr.key.op == opString {
			dst = appendString(dst, *at[string](keyAt))
		} else {
			dst, err = e.value(dst, pr.key, keyAt)
		}
		key := len(dst)
		if err == nil {
			dst, err = e.element(dst, pr.elem, elemAt)
		}
		if err != nil {
			return dst, inElement(i, err) // the entry is not worth keeping
		}
		if e.reg.opts.SortMaps {
			ends = append(ends, span{begin, key, len(dst)})
		}
	}
	sortEntries(dst, first, ends)
	en.ends = ends
	pr.putIterated(en)
	return dst, nil
}

// addresses returns where the key and the element are that the iterator stands on.
func (en *entry) addresses() (key, elem pointer) {
	if cursor.found && !en.methods {
		return current(&en.iter)
	}
	en.key.SetIterKey(&en.iter)
	en.elem.SetIterValue(&en.iter)
	return en.keyAt, en.at
}

// span is where an entry of a map lies in the output.
type span struct{ begin, key, end int }

// sortEntries orders the entries from first on by their encoded keys.
func sortEntries(dst []byte, first int, entries []span) {
	if len(entries) < 2 {
		return
	}
	slices.SortFunc(entries, func(a, b span) int {
		return cmp.Or(bytes.Compare(dst[a.begin:a.key], dst[b.begin:b.key]), bytes.Compare(dst[a.key:a.end], dst[b.key:b.end]))
	})
	sorted := make([]byte, 0, len(dst)-first)
	for _, s := range entries {
		sorted = append(sorted, dst[s.begin:s.end]...)
	}
	copy(dst[first:], sorted)
}
