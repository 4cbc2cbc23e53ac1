package natskv

import "maps"

// watchedDeletions is how many deleted keys a watch remembers, at least, that does not know
// which keys had a value when it began; see [Bucket.Watch].
const watchedDeletions = 4096

// presenceSweep is the least number of keys among which a watch looks for expired ones.
const presenceSweep = 1024

// presence is what one watch knows of the presence of keys. It tells a value that creates its
// key from one that updates it.
//
// Values expire without a message, so live is swept, by the times of the messages. A sweep
// reads all of live. It waits until live has doubled since the last one: so it costs each
// message a constant time, and live holds at most twice the keys that it must.
//
// Invariant: no key is in two of the maps.
type presence struct {
	complete bool // all values that there are come first
	synced   bool // they have come
	// live are the keys that have a value, and when it expires, in unix nanoseconds (0: never).
	// If synced, no other key has one. It is empty unless complete.
	live    map[string]int64
	sweepAt int // length of live
	// deleted are keys that have no value; those before were deleted earlier. They are empty if
	// synced, when other keys have no value either.
	deleted, before map[string]struct{}
}

// sync takes in that all values have come that there were.
func (p *presence) sync() {
	if p.complete {
		p.synced, p.deleted = true, nil
	}
}

// end takes in the end of the value of a key.
func (p *presence) end(key string) {
	delete(p.live, key)
	delete(p.before, key)
	if p.synced {
		return
	}
	if p.deleted == nil {
		p.deleted = make(map[string]struct{})
	}
	p.deleted[key] = struct{}{}
	if !p.complete && len(p.deleted) >= watchedDeletions {
		p.before, p.deleted = p.deleted, nil
	}
}

// begin takes in a value of a key, when it was written and when it expires. It reports whether
// the key is known to have had none.
func (p *presence) begin(key string, at, expires int64) (created bool) {
	_, deleted := p.deleted[key]
	_, before := p.before[key]
	delete(p.deleted, key)
	delete(p.before, key)
	if !p.complete {
		return deleted || before
	}
	end, had := p.live[key]
	if p.live == nil {
		p.live = make(map[string]int64)
	}
	p.live[key] = expires
	if len(p.live) >= p.sweepAt {
		maps.DeleteFunc(p.live, func(_ string, end int64) bool { return end != 0 && end <= at })
		p.sweepAt = max(2*len(p.live), presenceSweep)
	}
	if had {
		return end != 0 && end <= at
	}
	return deleted || p.synced
}
