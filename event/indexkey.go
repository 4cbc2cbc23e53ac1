package event

import (
	"context"
	"slices"
	"sort"

	"github.com/mainstemdev/mainstem"
)

// How the records of a key of the index are read.
const (
	smallPage = 32   // records of the first page of a key; each further one is twice as large
	largePage = 1024 // records of the largest page
	// skipOver is the number of unread records from which on a binary search for a position is
	// worth its cost: each of its steps is a call of the log, and so is a page.
	skipOver = 512
)

// positions is a sequence of positions in one direction, up or down.
type positions interface {
	// seek returns the first position that is equal to target or after it in the direction of the
	// sequence; false if there is none. The targets of successive calls must not go back.
	seek(ctx context.Context, target mainstem.Position) (mainstem.Position, bool, error)
	// count returns an estimate of the number of positions. It is too high if many were removed.
	count() uint64
}

// direction is the direction of a sequence.
type direction struct{ back bool }

// before reports whether p comes before q.
func (d direction) before(p, q mainstem.Position) bool { return p != q && (p > q) == d.back }

// next returns the position after p in the direction; false if there is none.
func (d direction) next(p mainstem.Position) (mainstem.Position, bool) {
	if d.back {
		return p - 1, p > 1
	}
	return p + 1, true
}

// ahead returns the version n after v in the direction, but none after end.
func (d direction) ahead(v, n, end mainstem.Version) mainstem.Version {
	if d.back {
		if v < end+n {
			return end
		}
		return v - n
	}
	return min(v+n, end)
}

// distance returns by how much w is after v in the direction; 0 if it is not after v.
func (d direction) distance(v, w mainstem.Version) mainstem.Version {
	switch {
	case d.back && v > w:
		return v - w
	case !d.back && w > v:
		return w - v
	}
	return 0
}

// wanted says which positions a reader needs.
type wanted struct {
	direction
	from   mainstem.Position        // upwards: none before this one
	most   int                      // downwards: at most this many, for a sequence that is not compared with others; 0: all
	accept func(stream []byte) bool // nil: every stream
}

// keyRead is the sequence of the positions in one key of the index. It reads the newest records
// first, in one page, since readers mostly need these: what came after a recent head, or the newest
// of all. It reads others by further pages, and skips long stretches by a binary search over
// versions: the records of a key are in the order of their events.
type keyRead struct {
	wanted
	log   mainstem.Reader
	space string
	key   []byte

	next, end mainstem.Version // versions to be read: from next to end, both inclusive
	ended     bool
	total     uint64
	page      []mainstem.Position
	size      int
	reached   mainstem.Position // position of the last record that was read, whether or not the page has it

	// newest is the newest page of a sequence upwards that has not reached it yet, and newestFrom
	// the position of its oldest record.
	newest     []mainstem.Position
	newestFrom mainstem.Position
}

// open reads the newest page of the key.
func (k *keyRead) open(ctx context.Context) error {
	if k.size = smallPage; k.back && k.most > 0 {
		k.size = min(k.size, k.most)
	}
	n, newest, oldest, err := k.read(ctx, mainstem.Versions{Reverse: true, Limit: k.size})
	if err != nil {
		return err
	}
	if n < k.size || oldest == 1 {
		k.ended, k.total = true, uint64(n)
	} else {
		k.next, k.end, k.total = 1, oldest-1, uint64(newest)
	}
	if k.back {
		k.next, k.end = k.end, k.next
		k.grow()
		return nil
	}
	slices.Reverse(k.page)
	if !k.ended && k.reached > k.from {
		k.page, k.newest, k.newestFrom = nil, k.page, k.reached
		return nil
	}
	k.page = k.page[k.search(k.from):]
	k.ended, k.total = true, uint64(len(k.page))
	return nil
}

// search returns the index in the page of the first position that is equal to target or after it.
func (k *keyRead) search(target mainstem.Position) int {
	return sort.Search(len(k.page), func(i int) bool { return !k.before(k.page[i], target) })
}

func (k *keyRead) count() uint64 { return k.total }

func (k *keyRead) seek(ctx context.Context, target mainstem.Position) (mainstem.Position, bool, error) {
	if k.newest != nil && k.newestFrom <= target {
		k.ended = true // no position before newest is needed any more
	}
	for far := false; ; far = k.before(k.reached, target) {
		k.page = k.page[k.search(target):]
		switch {
		case len(k.page) > 0:
			return k.page[0], true, nil
		case k.ended && k.newest == nil:
			return 0, false, nil
		case k.ended:
			k.page, k.newest = k.newest, nil
			continue
		}
		if far && k.distance(k.next, k.end) > skipOver { // the next page had no position that was needed
			if err := k.skip(ctx, target); err != nil {
				return 0, false, err
			}
			k.size = smallPage
		}
		if !k.ended {
			if err := k.fill(ctx); err != nil {
				return 0, false, err
			}
		}
	}
}

// fill reads the next page.
func (k *keyRead) fill(ctx context.Context) error {
	n, _, last, err := k.read(ctx, k.versions(k.next, k.size))
	if err != nil {
		return err
	}
	if n < k.size {
		k.ended = true
	} else {
		k.advance(last)
	}
	k.grow()
	return nil
}

func (k *keyRead) grow() { k.size = min(2*k.size, largePage) }

// read reads a page, and returns the number of its records and the versions of the first and the
// last. In a space that was dropped it finds none: then the control record has changed since the
// reader began.
func (k *keyRead) read(ctx context.Context, sel mainstem.Versions) (n int, first, last mainstem.Version, err error) {
	k.page = k.page[:0]
	for rec, err := range k.log.Read(ctx, k.space, k.key, sel) {
		if err != nil {
			return n, first, last, ignoreNotFound(err)
		}
		if n++; n == 1 {
			first = rec.Version
		}
		last = rec.Version
		if !rec.Live() {
			continue
		}
		p, stream, err := decodeEntry(&rec)
		if err != nil {
			return n, first, last, err
		}
		k.reached = p
		if len(stream) > 0 && (k.accept == nil || k.accept(stream)) {
			k.page = append(k.page, p)
		}
	}
	return n, first, last, nil
}

// advance sets next to the version after v.
func (k *keyRead) advance(v mainstem.Version) {
	if k.distance(v, k.end) == 0 {
		k.ended = true
		return
	}
	k.next = k.ahead(v, 1, k.end)
}

// versions selects at most n records from version v on, in the direction.
func (k *keyRead) versions(v mainstem.Version, n int) mainstem.Versions {
	if k.back {
		return mainstem.Versions{From: k.end, To: v, Reverse: true, Limit: n}
	}
	return mainstem.Versions{From: v, To: k.end, Limit: n}
}

// probe returns the first record from version v on, and the position of its event.
func (k *keyRead) probe(ctx context.Context, v mainstem.Version) (at mainstem.Version, p mainstem.Position, err error) {
	for rec, err := range k.log.Read(ctx, k.space, k.key, k.versions(v, 1)) {
		if err != nil {
			return 0, 0, ignoreNotFound(err)
		}
		p, _, err = decodeEntry(&rec)
		return rec.Version, p, err
	}
	return 0, 0, nil
}

// skip moves next towards the first record that is not before target: in growing steps until a step
// passes that record, then by binary search.
//
// Invariant: every record before next is before target.
func (k *keyRead) skip(ctx context.Context, target mainstem.Position) error {
	var behind mainstem.Version
	for step := mainstem.Version(skipOver); ; step *= 2 {
		behind = k.ahead(k.next, step, k.end)
		v, p, err := k.probe(ctx, behind)
		if err != nil {
			return err
		}
		if v == 0 || !k.before(p, target) {
			break
		}
		if k.advance(v); k.ended {
			return nil
		}
	}
	for k.distance(k.next, behind) > smallPage {
		middle := k.ahead(k.next, k.distance(k.next, behind)/2, k.end)
		v, p, err := k.probe(ctx, middle)
		if err != nil {
			return err
		}
		if v == 0 || !k.before(p, target) {
			behind = middle
			continue
		}
		if k.advance(v); k.ended {
			return nil
		}
	}
	return nil
}

// twoKeys is the sequence of the events from before the index was built, followed by that of the
// events since. The second is opened when the first has ended.
type twoKeys struct {
	first, second *keyRead
	opened        bool // second was opened
}

func (t *twoKeys) count() uint64 { return t.first.total + t.second.total }

func (t *twoKeys) openSecond(ctx context.Context) error {
	if t.opened {
		return nil
	}
	t.opened = true
	return t.second.open(ctx)
}

func (t *twoKeys) seek(ctx context.Context, target mainstem.Position) (mainstem.Position, bool, error) {
	if p, ok, err := t.first.seek(ctx, target); ok || err != nil {
		return p, ok, err
	}
	if err := t.openSecond(ctx); err != nil {
		return 0, false, err
	}
	return t.second.seek(ctx, target)
}

// anyOf is the union of sequences: it yields each position once.
type anyOf struct {
	direction
	of []positions
}

func (a *anyOf) count() (n uint64) {
	for _, one := range a.of {
		n += one.count()
	}
	return n
}

func (a *anyOf) seek(ctx context.Context, target mainstem.Position) (first mainstem.Position, found bool, err error) {
	for _, one := range a.of {
		p, ok, err := one.seek(ctx, target)
		if err != nil {
			return 0, false, err
		}
		if ok && (!found || a.before(p, first)) {
			first, found = p, true
		}
	}
	return first, found, nil
}

// allOf is the intersection of sequences. It seeks the candidate of one sequence in the others
// until all have the same position, so that the shortest sequence bounds the number of reads of the
// longest.
type allOf struct{ of []positions }

func (a *allOf) count() uint64 {
	n := a.of[0].count()
	for _, one := range a.of[1:] {
		n = min(n, one.count())
	}
	return n
}

func (a *allOf) seek(ctx context.Context, target mainstem.Position) (mainstem.Position, bool, error) {
	for agreed := 0; agreed < len(a.of); {
		agreed = 0
		for _, one := range a.of {
			p, ok, err := one.seek(ctx, target)
			if !ok || err != nil {
				return 0, false, err
			}
			if p != target {
				target = p
				break
			}
			agreed++
		}
	}
	return target, true, nil
}
