package kv

import "github.com/mainstemdev/mainstem"

// maxEnds bounds the memory of a watch: it keeps at least this many ends, and at most twice as
// many.
const maxEnds = 1 << 16

// ends records when the values of keys that a watch has passed ended, or will expire. The oldest
// are discarded: young fills up to maxEnds and then replaces old.
type ends struct {
	young, old map[string]int64 // unix nanoseconds
}

// note records the end of the key's value if r is a tombstone or a value that expires.
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
// Expires is a time of the engine's clock, but r has only its Time. Time equals the clock unless
// the clock was set back: then Time stands still at the newest time from before, and Expires may be
// earlier. So a record with the same Time as the value proves nothing about the end of the value,
// while a later Time was once the time of the clock. An end that is missed for this reason is known
// only by the tombstone of the expiry.
func (e *ends) before(key string, r *mainstem.Record) bool {
	at, ok := e.young[key]
	if !ok {
		at, ok = e.old[key]
	}
	return ok && at <= r.Time.UnixNano()
}
