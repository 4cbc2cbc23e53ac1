package natslog

import (
	"slices"
	"sort"
	"strings"
)

// chunkKeys is how many keys a chunk of an index holds at most: moving half as many
// pointers is cheaper than a deeper tree.
const chunkKeys = 512

// keyIndex holds the keys of a space in order: a sorted list of sorted chunks.
type keyIndex struct {
	chunks [][]*key // none is empty
}

// chunk returns the index of the chunk that name belongs to.
func (x *keyIndex) chunk(name string) int {
	i := sort.Search(len(x.chunks), func(i int) bool { return x.chunks[i][0].name > name })
	return max(i-1, 0)
}

// within returns where in c name is or belongs.
func within(c []*key, name string) int {
	i, _ := slices.BinarySearchFunc(c, name, func(k *key, name string) int { return strings.Compare(k.name, name) })
	return i
}

// insert adds k, which is not in the index.
func (x *keyIndex) insert(k *key) {
	if len(x.chunks) == 0 {
		x.chunks = [][]*key{{k}}
		return
	}
	i := x.chunk(k.name)
	c := x.chunks[i]
	c = slices.Insert(c, within(c, k.name), k)
	x.chunks[i] = c
	if len(c) <= chunkKeys {
		return
	}
	half := len(c) / 2
	if i == len(x.chunks)-1 && c[len(c)-1] == k {
		half = len(c) - 1 // keys in ascending order fill chunks
	}
	right := slices.Clone(c[half:])
	clear(c[half:])
	x.chunks[i] = c[:half]
	x.chunks = slices.Insert(x.chunks, i+1, right)
}

// remove takes k out.
func (x *keyIndex) remove(k *key) {
	i := x.chunk(k.name)
	c := x.chunks[i]
	c = slices.Delete(c, within(c, k.name), within(c, k.name)+1)
	x.chunks[i] = c
	if len(c) == 0 {
		x.chunks = slices.Delete(x.chunks, i, i+1)
	}
}

// ascend calls f for the keys from start on, in order, until it returns false.
func (x *keyIndex) ascend(start string, f func(*key) bool) {
	if len(x.chunks) == 0 {
		return
	}
	first := x.chunk(start)
	for i := first; i < len(x.chunks); i++ {
		from := 0
		if i == first {
			from = within(x.chunks[i], start)
		}
		for _, k := range x.chunks[i][from:] {
			if !f(k) {
				return
			}
		}
	}
}

// descend calls f for the keys below end, from the last on, until it returns
// false. Without bound it begins with the last key of all.
func (x *keyIndex) descend(end string, bounded bool, f func(*key) bool) {
	if len(x.chunks) == 0 {
		return
	}
	first := len(x.chunks) - 1
	if bounded {
		first = x.chunk(end)
	}
	for i := first; i >= 0; i-- {
		to := len(x.chunks[i])
		if bounded && i == first {
			to = within(x.chunks[i], end)
		}
		for j := to - 1; j >= 0; j-- {
			if !f(x.chunks[i][j]) {
				return
			}
		}
	}
}
