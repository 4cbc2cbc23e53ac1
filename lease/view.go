package lease

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/kv"
)

// view is the members and leases of the bucket, as far as the keeper has seen. watch writes it.
type view struct {
	mu      sync.Mutex       // guards the fields below
	members map[string]*seen // by name
	leases  map[string]Held  // by key, with those whose owner is no member any more
	changed chan struct{}    // closed and replaced when members or leases change
	synced  chan struct{}    // closed when the bucket has been read once
}

// seen is a member, or only one of its two entries.
type seen struct {
	record
	epoch kv.Revision // of the member entry; 0: there is none
	beat  kv.Revision // of the beat entry; 0: there is none
	since time.Time   // when epoch or beat last changed in the view, by the clock of this process
}

// Held is a lease as other nodes see it.
type Held struct {
	Key     string
	Node    string // the name of the owner
	Value   string // as given to Acquire
	Epoch   uint64 // of the lease
	Session uint64 // the epoch of the owner's session
}

func newView() *view {
	return &view{
		members: make(map[string]*seen), leases: make(map[string]Held),
		changed: make(chan struct{}), synced: make(chan struct{}),
	}
}

// apply applies one entry of the bucket, or its deletion.
func (v *view) apply(e *kv.Entry[record]) {
	kind, name := split(e.Key)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch kind {
	case memberPrefix, beatPrefix:
		v.applyMemberLocked(kind, name, e)
	case leasePrefix:
		if e.Live() {
			v.leases[name] = Held{Key: name, Node: e.Value.Node, Value: e.Value.Value, Epoch: uint64(e.Revision), Session: e.Value.Session}
		} else {
			delete(v.leases, name)
		}
		v.announceLocked()
	}
}

// applyMemberLocked applies a member or beat entry. A member without either is removed.
func (v *view) applyMemberLocked(kind, name string, e *kv.Entry[record]) {
	m := v.members[name]
	if m == nil {
		m = &seen{since: time.Now()}
		v.members[name] = m
	}
	revision := e.Revision
	if !e.Live() {
		revision = 0
	}
	if kind == beatPrefix {
		if m.beat != revision {
			m.beat, m.since = revision, time.Now()
		}
	} else if m.epoch != revision {
		m.record, m.epoch, m.since = e.Value, revision, time.Now()
		v.announceLocked()
	}
	if m.epoch == 0 && m.beat == 0 {
		delete(v.members, name)
	}
}

// drop removes the entries whose keys are not in present, because they were deleted while the
// keeper did not watch. Then the view is as the bucket, and synced is closed.
func (v *view) drop(present map[string]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, m := range v.members {
		if !present[memberPrefix+name] {
			m.epoch = 0
		}
		if !present[beatPrefix+name] {
			m.beat = 0
		}
		if m.epoch == 0 && m.beat == 0 {
			delete(v.members, name)
		}
	}
	for key := range v.leases {
		if !present[leasePrefix+key] {
			delete(v.leases, key)
		}
	}
	v.announceLocked()
	select {
	case <-v.synced:
	default:
		close(v.synced)
	}
}

// announceLocked wakes those that wait for a change.
func (v *view) announceLocked() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// next returns the channel that is closed when members or leases next change.
func (v *view) next() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

// member returns a member by name.
func (v *view) member(name string) (Member, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.members[name]
	if m == nil || m.epoch == 0 {
		return Member{}, false
	}
	return m.public(name), true
}

func (m *seen) public(name string) Member {
	return Member{Name: name, Start: m.Start, Address: m.Address, Epoch: uint64(m.epoch)}
}

// all returns all members in the order of their names.
func (v *view) all() []Member {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []Member
	for _, name := range slices.Sorted(maps.Keys(v.members)) {
		if m := v.members[name]; m.epoch != 0 {
			out = append(out, m.public(name))
		}
	}
	return out
}

// held returns the lease of a key, if its owner's session is the present one of its member.
func (v *view) held(key string) (Held, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h, ok := v.leases[key]
	return h, ok && v.aliveLocked(h)
}

// aliveLocked reports whether the session of h is the present one of its member.
func (v *view) aliveLocked(h Held) bool {
	m := v.members[h.Node]
	return m != nil && uint64(m.epoch) == h.Session
}

// heldUnder returns the leases of the keys that begin with prefix, in the order of the keys.
func (v *view) heldUnder(prefix string) []Held {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []Held
	for _, key := range slices.Sorted(maps.Keys(v.leases)) {
		if h := v.leases[key]; strings.HasPrefix(key, prefix) && v.aliveLocked(h) {
			out = append(out, h)
		}
	}
	return out
}

// ofSession returns the leases of one session of a member, in the order of their keys.
func (v *view) ofSession(node string, session uint64) []Held {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []Held
	for _, h := range v.leases {
		if h.Node == node && h.Session == session {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b Held) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// suspect is a member with the revisions of its entries, the conditions of its removal.
type suspect struct {
	name        string
	epoch, beat kv.Revision
}

// silent returns the members other than self that were silent for their TTL (over), the leases
// whose owner is no member any more (orphans), and how long it takes until the next member may be
// silent for its TTL.
func (v *view) silent(self string, now time.Time) (over []suspect, orphans []Held, again time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	again = MaxTTL
	for name, m := range v.members {
		if name == self || m.epoch == 0 {
			continue
		}
		if left := m.since.Add(m.ttl()).Sub(now); left > 0 {
			again = min(again, left)
		} else {
			over = append(over, suspect{name, m.epoch, m.beat})
		}
	}
	for _, h := range v.leases {
		if !v.aliveLocked(h) {
			orphans = append(orphans, h)
		}
	}
	return over, orphans, again
}
