package kv

import "github.com/mainstemdev/mainstem"

// maxEnds is how many ends a watch remembers at least, and half of how many at
// most: what bounds its memory.
const maxEnds = 1 << 16

// ends remembers when the values of keys that a watch has passed ended, or will
// end by themselves. It forgets the oldest when there are too many: young fills
// up to maxEnds and then becomes old.
type ends struct {
	young, old map[string]int64 // unix nanoseconds
}

// note remembers the end of the key's value, if r is one or sets one.
func (e *ends) note(key string, r *mainstem.Record) {
	switch {
	case !r.Live():
		e.put(key, r.Time.UnixNano())
	case !r.Expires.IsZero():
		e.put(key, max(r.Expires.UnixNano(), r.Time.UnixNano()+1))
	default:
		delete(e.young, key)
		delete(e.old, key)
	}
}

func (e *ends) put(key string, at int64) {
	if len(e.young) >= maxEnds {
		e.old, e.young = e.young, nil
	}
	if e.young == nil {
		e.young = make(map[string]int64)
	}
	e.young[key] = at
}

// before reports whether the key's value is known to have ended before r was written.
//
// Expires is what the clock shows at the end, and r has only its Time, which is the
// clock unless that was set back: then Time stands still at the newest from before, and
// Expires may be earlier. A record of the same Time as the value is therefore never
// evidence of its end, while a later Time was once shown by the clock. An end that this
// hides is known only by the tombstone of the expiry.
func (e *ends) before(key string, r *mainstem.Record) bool {
	at, ok := e.young[key]
	if !ok {
		at, ok = e.old[key]
	}
	return ok && at <= r.Time.UnixNano()
}
