package model

import (
	"time"

	"github.com/mainstemdev/mainstem"
)

// Version returns the newest version ever given to a key, 0 if none was,
// whether or not a record of it is held.
func (l *Log) Version(space string, name []byte) mainstem.Version {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sp := l.mu.spaces[space]; sp != nil {
		if k := sp.keys[string(name)]; k != nil {
			return k.head
		}
	}
	return 0
}

// Due reports whether a sweep would remove something now, or say that it expired.
func (l *Log) Due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.nowLocked()
	for _, sp := range l.mu.spaces {
		for _, k := range sp.keys {
			for i := range k.records {
				if r := &k.records[i]; sp.hidden(r, now) || sp.forgets(r, now) {
					return true
				}
			}
		}
	}
	return false
}

// Behind returns how far a clock that is set to now would be behind the latest reading at
// which something was written.
func (l *Log) Behind(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.mu.latest - now.UnixNano())
}

// Raise makes v the newest version of a key of which no record is held, if it is
// above the newest. Engines need not remember the exact versions of keys that
// they were told to forget, and may go on from a higher one; an oracle follows
// them with Raise. It does nothing to a key with records.
func (l *Log) Raise(space string, name []byte, v mainstem.Version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sp := l.mu.spaces[space]
	if sp == nil {
		return
	}
	k := sp.keys[string(name)]
	if k == nil {
		k = &key{}
		sp.keys[string(name)] = k
	}
	if len(k.records) == 0 {
		k.head = max(k.head, v)
	}
}

// Written returns the position of the newest record that a key was ever given, 0 if there
// was none, and whether that record is held and visible. Of one that is not, engines may
// remember a later position.
func (l *Log) Written(space string, name []byte) (last mainstem.Position, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sp := l.mu.spaces[space]
	if sp == nil || sp.keys[string(name)] == nil {
		return 0, false
	}
	k := sp.keys[string(name)]
	return k.last, sp.newest(k, l.nowLocked()) != nil
}
