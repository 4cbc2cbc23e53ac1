package event

import (
	"context"
	"sort"

	"github.com/mainstemdev/mainstem"
)

// How a key of the index is read.
const (
	smallPage = 32   // records of the first page of a key; each further one is twice as large
	largePage = 1024 // of the largest
	// skipOver is how many unread records are worth looking for the wanted one by halving,
	// which costs a call of the log for each step, where a page is one call.
	skipOver = 512
)

// positions is a sequence of positions in one direction, up or down.
type positions interface {
	// seek returns the first position that is target or lies behind it in the direction of
	// the sequence; false if there is none. Targets of one sequence never go back.
	seek(ctx context.Context, target mainstem.Position) (mainstem.Position, bool, error)
	// count returns about how many positions there are.
	count() uint64
}

// direction of a sequence.
type direction struct{ back bool }

// before reports whether p comes before q.
func (d direction) before(p, q mainstem.Position) bool { return p != q && (p > q) == d.back }

// next returns the position behind p; false if there is none.
func (d direction) next(p mainstem.Position) (mainstem.Position, bool) {
	if d.back {
		return p - 1, p > 1
	}
	return p + 1, true
}

// ahead returns the version n behind v, but none behind end.
func (d direction) ahead(v, n, end mainstem.Version) mainstem.Version {
	if d.back {
		if v < end+n {
			return end
		}
		return v - n
	}
	return min(v+n, end)
}

// distance returns how far w is behind v; 0 if it is not.
func (d direction) distance(v, w mainstem.Version) mainstem.Version {
	switch {
	case d.back && v > w:
		return v - w
	case !d.back && w > v:
		return w - v
	}
	return 0
}

// keyRead is the sequence of the positions in one key of the index. It reads pages, and passes
// over long stretches by halving the versions: the records of a key are in the order of
// their events.
type keyRead struct {
	direction
	log    mainstem.Reader
	space  string
	key    []byte
	accept func(stream []byte) bool // nil: every stream

	next, end mainstem.Version // to be read: from next to end, both inclusive
	ended     bool
	total     uint64
	page      []mainstem.Position
	size      int
}

// open finds the versions that the key holds.
func (k *keyRead) open(ctx context.Context) error {
	var ends [2]mainstem.Version
	for i, reverse := range [...]bool{false, true} {
		for rec, err := range k.log.Read(ctx, k.space, k.key, mainstem.Versions{Reverse: reverse, Limit: 1}) {
			if err != nil {
				return ignoreNotFound(err)
			}
			ends[i] = rec.Version
		}
	}
	if ends[0] == 0 || ends[1] < ends[0] { // no records, or truncated between the two
		k.ended = true
		return nil
	}
	k.next, k.end, k.size = ends[0], ends[1], smallPage
	k.total = uint64(ends[1]-ends[0]) + 1
	if k.back {
		k.next, k.end = k.end, k.next
	}
	return nil
}

func (k *keyRead) count() uint64 { return k.total }

func (k *keyRead) seek(ctx context.Context, target mainstem.Position) (mainstem.Position, bool, error) {
	for {
		k.page = k.page[sort.Search(len(k.page), func(i int) bool { return !k.before(k.page[i], target) }):]
		if len(k.page) > 0 {
			return k.page[0], true, nil
		}
		if !k.ended && k.distance(k.next, k.end) > skipOver {
			if err := k.skip(ctx, target); err != nil {
				return 0, false, err
			}
		}
		if k.ended {
			return 0, false, nil
		}
		if err := k.fill(ctx); err != nil {
			return 0, false, err
		}
	}
}

// fill reads the next page.
func (k *keyRead) fill(ctx context.Context) error {
	k.page = k.page[:0]
	n := 0
	for rec, err := range k.log.Read(ctx, k.space, k.key, k.versions(k.next, k.size)) {
		if err != nil {
			return err
		}
		n++
		if rec.Live() {
			p, stream, err := decodeEntry(&rec)
			if err != nil {
				return err
			}
			if len(stream) > 0 && (k.accept == nil || k.accept(stream)) {
				k.page = append(k.page, p)
			}
		}
		k.advance(rec.Version)
	}
	if n < k.size {
		k.ended = true
	}
	k.size = min(2*k.size, largePage)
	return nil
}

// advance sets next behind version v.
func (k *keyRead) advance(v mainstem.Version) {
	if k.distance(v, k.end) == 0 {
		k.ended = true
		return
	}
	k.next = k.ahead(v, 1, k.end)
}

// versions selects at most n records from version v on.
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
			return 0, 0, err
		}
		p, _, err = decodeEntry(&rec)
		return rec.Version, p, err
	}
	return 0, 0, nil
}

// skip moves next towards the first record that is not before target: in growing steps until
// one is behind it, then by halving.
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

// twoKeys is the events from before the index was built and those since, the one sequence
// behind the other.
type twoKeys struct{ first, second *keyRead }

func (t *twoKeys) count() uint64 { return t.first.total + t.second.total }

func (t *twoKeys) seek(ctx context.Context, target mainstem.Position) (mainstem.Position, bool, error) {
	if p, ok, err := t.first.seek(ctx, target); ok || err != nil {
		return p, ok, err
	}
	return t.second.seek(ctx, target)
}

// anyOf is the union of sequences: each position once.
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

// allOf is the intersection of sequences: each is asked for the candidate of the others
// until they agree, so that the shortest decides how much is read of the longest.
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
