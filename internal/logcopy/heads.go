package logcopy

import "github.com/mainstemdev/mainstem"

// headsKept is how many keys' newest versions are remembered, twice.
const headsKept = 1 << 16

// heads remembers the newest versions of the keys of the target that were written
// lately. It has two generations: when the young one is full it becomes the old one.
type heads struct {
	young, old map[string]head
}

// head is the newest version of a key, and the last batch that wrote the key.
type head struct {
	version mainstem.Version
	batch   uint64
}

func (h *heads) get(key []byte) (head, bool) {
	if v, ok := h.young[string(key)]; ok {
		return v, true
	}
	v, ok := h.old[string(key)]
	return v, ok
}

func (h *heads) put(key []byte, v head) {
	if h.young == nil {
		h.young = map[string]head{}
	}
	h.young[string(key)] = v
}

func (h *heads) forget(key []byte) {
	delete(h.young, string(key))
	delete(h.old, string(key))
}

// rotate makes room. It is called between batches: within one, no head may be lost.
func (h *heads) rotate() {
	if len(h.young) >= headsKept {
		h.young, h.old = map[string]head{}, h.young
	}
}
