package natslog

import (
	"sort"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// state is everything about the log but the bytes of its records: what replaying
// the facts of the stream, in its order, leads to. Every process that has the log
// open holds the same.
//
// Invariant: a unit of the stream has refs 0 only if leaving it out of a replay
// leads to the same state. Only such units are ever deleted.
type state struct {
	seq    uint64 // sequence of the newest message seen
	head   uint64 // newest position
	time   int64  // of the newest record, unix nanoseconds
	clock  clockState
	nextID uint32 // of the next space
	// unseen is a position: what this process has not seen, because it had left the stream
	// before, was not written after it.
	unseen uint64
	// gap says that messages had left the stream before they were seen, since the newest frame.
	gap bool

	spaces map[string]*space
	byID   map[uint32]*space // also dropped ones of which records lie in the stream
	units  map[uint64]*unit  // by the sequence of their first message
	newest *unit             // it stays: its numbers are the newest

	receipts     map[string]*receipt // by batch ID
	receiptOrder []*receipt          // by age

	dead     []*unit // refs went to 0, to be deleted
	sparse   []*unit // mostly dead, to be restated
	idle     []*key  // of which nothing is left
	expiring expiring
}

// space is one space. Its ID is never given to another one.
type space struct {
	id      uint32
	name    string // "" until its fact was seen
	policy  mainstem.Policy
	created int64
	updated int64
	last    uint64 // newest position
	floor   uint64 // new keys begin above this version
	traces  uint64 // no key that this process has forgotten was written after this position
	dropped bool

	keys  map[string]*key
	index keyIndex
	order []*record // every record by position; dead ones are taken out now and then
	gone  int       // dead ones in order
	tombs []*record // tombstones by position, in a space with bounded history

	live struct{ keys, records, bytes int64 }
	phys int // its records and definitions that lie in the stream, dead or alive

	defined *unit // holds the newest fact about the space
	active  *unit // holds the newest last and updated
	dropper *unit // holds the fact that it was dropped
}

// key is one key: everything that was ever written to it.
type key struct {
	space  *space
	name   string
	head   uint64    // newest version ever given
	pos    uint64    // of the newest record ever; a later one if that had left the stream before it was seen
	top    uint64    // version of the record that pos is of
	floor  uint64    // records below it are dead
	recs   []*record // those held, by version
	phys   int       // records that lie in the stream, dead or alive
	latest *unit     // holds the newest fact about head and floor
	// implied says that this fact is a record, which states them besides itself.
	implied bool
}

// record is where one record lies and what is known without reading it. All but
// dead is immutable, so readers may use what they found after the lock is gone.
type record struct {
	key     *key
	version uint64
	pos     uint64
	time    int64
	clock   int64 // what the clock showed at the commit; differs from time if that was behind
	expires int64 // 0: never
	count   uint32
	tomb    mainstem.Tombstone
	size    int64 // bytes of key, headers and value

	unit *unit
	seq  uint64 // message
	off  uint32 // in its payload
	len  uint32

	dead bool  // under the lock of the log
	due  int64 // when it expires, by the marks of the clock: its place in the heap; under the lock of the log
}

// unit is what one publish put into the stream: usually one message.
type unit struct {
	seq      uint64 // of the first message
	parts    uint32
	nonce    uint64
	facts    int      // it came with and that counted then, but for the implied ones
	refs     int      // facts that still count, and units that must not outlive it
	implied  int      // of refs, those for heads and floors that its records state besides themselves
	holds    []held   // one entry for each record in it
	defines  []*space // one entry for each definition in it
	tells    []*key   // those whose head and floor it states alone
	receipts []*receipt
	before   []*unit // must be kept until this one is deleted
	erase    bool    // overwrite its bytes: something in it was redacted
	queued   bool    // in state.sparse
	diedAt   time.Time
}

// held is one record of a unit, by what finds it among the many that its key may have.
type held struct {
	key     *key
	version uint64
}

// receipt is a batch that was committed with an ID.
type receipt struct {
	id       string
	first    uint64
	last     uint64
	time     int64
	clock    int64  // what the clock showed then, as far as it is known
	after    uint64 // the newest position then
	versions []mainstem.Version
	unit     *unit
}

func newState() state {
	return state{
		nextID: 1, spaces: map[string]*space{}, byID: map[uint32]*space{}, units: map[uint64]*unit{},
		receipts: map[string]*receipt{},
	}
}

// retain counts one more reason to keep u.
func (u *unit) retain() *unit {
	u.refs++
	return u
}

// release takes one reason to keep u away.
func (s *state) release(u *unit) {
	if u == nil {
		return
	}
	u.refs--
	switch {
	case u.refs == 0:
		u.diedAt = time.Now()
		s.dead = append(s.dead, u)
	case u.sparse():
		s.queueSparse(u)
	}
}

// sparse reports whether less than half of u still counts. What records state besides
// themselves is left out: without it they waste no more than with it.
func (u *unit) sparse() bool { return (u.refs-u.implied)*2 < u.facts }

// queueSparse notes that u is mostly dead, unless it is noted already.
func (s *state) queueSparse(u *unit) {
	if !u.queued {
		u.queued = true
		s.sparse = append(s.sparse, u)
	}
}

// outlive keeps later until earlier is deleted.
func outlive(later, earlier *unit) {
	if later != earlier {
		earlier.before = append(earlier.before, later.retain())
	}
}

// spaceOf returns the space with an ID; its fact may come later in the stream than
// the facts about its keys.
func (s *state) spaceOf(id uint32) *space {
	sp := s.byID[id]
	if sp == nil {
		sp = &space{id: id, keys: map[string]*key{}}
		s.byID[id] = sp
		s.nextID = max(s.nextID, id+1)
	}
	return sp
}

func (sp *space) keyOf(name []byte) *key {
	k := sp.keys[string(name)]
	if k == nil {
		k = &key{space: sp, name: string(name)}
		sp.keys[k.name] = k
		sp.index.insert(k)
	}
	return k
}

// written notes that the record of k at a version has position pos, or at most pos.
func (k *key) written(version, pos uint64) {
	if version >= k.top {
		k.top, k.pos = version, pos
	}
}

// tell notes that u holds the newest fact about k, which is implied if it is a record.
func (s *state) tell(k *key, u *unit, head, floor uint64, implied bool) {
	k.head, k.floor = max(k.head, head), max(k.floor, floor)
	u.retain()
	if implied {
		u.implied++
	}
	s.untell(k)
	k.latest, k.implied = u, implied
}

// untell notes that the newest fact about k counts no more.
func (s *state) untell(k *key) {
	old := k.latest
	if k.implied {
		old.implied--
	}
	k.latest, k.implied = nil, false
	s.release(old)
}

// insert adds r, which replaces a record of its version.
func (s *state) insert(k *key, r *record) {
	r.key = k
	i := k.find(r.version)
	if i < len(k.recs) && k.recs[i].version == r.version {
		old := k.recs[i]
		outlive(r.unit, old.unit)
		s.kill(old)
		k.recs[i] = r
	} else if i == len(k.recs) {
		k.recs = append(k.recs, r)
	} else {
		k.recs = append(k.recs, nil)
		copy(k.recs[i+1:], k.recs[i:])
		k.recs[i] = r
	}
	r.unit.retain()
	sp := k.space
	sp.enter(r)
	sp.live.records++
	sp.live.bytes += r.size
	if len(k.recs) == 1 {
		sp.live.keys++
	}
	if r.expires != 0 {
		r.due = s.clock.due(r)
		s.expiring.push(r)
	}
	if r.tomb != mainstem.Live && sp.policy.History != 0 {
		sp.tombs = append(sp.tombs, r)
	}
}

// enter puts r into the order of its space.
func (sp *space) enter(r *record) {
	n := len(sp.order)
	if n == 0 || sp.order[n-1].pos < r.pos {
		sp.order = append(sp.order, r)
		return
	}
	i := sp.after(r.pos - 1)
	if sp.order[i].pos == r.pos { // its earlier copy, which is dead
		sp.order[i] = r
		sp.gone--
		return
	}
	sp.order = append(sp.order, nil)
	copy(sp.order[i+1:], sp.order[i:])
	sp.order[i] = r
}

// after returns the index in order of the first record above pos.
func (sp *space) after(pos uint64) int {
	return sort.Search(len(sp.order), func(i int) bool { return sp.order[i].pos > pos })
}

// kill makes r count no more. The caller takes it out of its key.
func (s *state) kill(r *record) {
	r.dead = true
	sp := r.key.space
	sp.live.records--
	sp.live.bytes -= r.size
	if len(r.key.recs) == 1 {
		sp.live.keys--
	}
	s.release(r.unit)
	if sp.gone++; sp.gone > 64 && sp.gone > len(sp.order)/2 {
		sp.tidy()
	}
}

// tidy takes dead records out of the order. Readers hold no index into it.
func (sp *space) tidy() {
	kept := make([]*record, 0, len(sp.order)-sp.gone)
	for _, r := range sp.order {
		if !r.dead {
			kept = append(kept, r)
		}
	}
	sp.order, sp.gone = kept, 0
}

// find returns the index of the first record at version v or later.
func (k *key) find(v uint64) int {
	if n := len(k.recs); n == 0 || k.recs[n-1].version < v {
		return n
	}
	return sort.Search(len(k.recs), func(i int) bool { return k.recs[i].version >= v })
}

// at returns the record that ends at v, or nil.
func (k *key) at(v uint64) *record {
	if i := k.find(v); i < len(k.recs) && k.recs[i].version == v {
		return k.recs[i]
	}
	return nil
}

// cut kills the records of k below its floor.
func (s *state) cut(k *key) {
	n := 0
	for n < len(k.recs) && k.recs[n].version < k.floor {
		n++
	}
	for range n {
		r := k.recs[0]
		s.kill(r)
		k.recs[0] = nil
		k.recs = k.recs[1:]
	}
	if len(k.recs) == 0 {
		k.recs = nil
	}
}

// remove kills the record of k at version v, as told by u.
func (s *state) remove(k *key, v uint64, u *unit) {
	i := k.find(v)
	if i == len(k.recs) || k.recs[i].version != v {
		return
	}
	r := k.recs[i]
	outlive(u, r.unit)
	s.kill(r)
	recs := make([]*record, 0, len(k.recs)-1)
	k.recs = append(append(recs, k.recs[:i]...), k.recs[i+1:]...)
}

// hidden reports whether r is no longer to be seen at now.
func (sp *space) hidden(r *record, now *wallclock.Moment) bool {
	return r.over(now, int64(sp.policy.MaxAge))
}

// over reports whether the time to live of r is over, or r is older than maxAge (0: never).
func (r *record) over(now *wallclock.Moment, maxAge int64) bool {
	clock, expires := now.Rebase(r.pos, r.clock, r.expires)
	return now.Over(clock, expires, maxAge)
}

// older reports whether r is older than age, 0 meaning never.
func (r *record) older(now *wallclock.Moment, age int64) bool {
	clock, _ := now.Rebase(r.pos, r.clock, 0)
	return now.Over(clock, 0, age)
}

// newest returns the record at the newest version of k, nil if it is gone or hidden.
func (k *key) newest(now *wallclock.Moment) *record {
	n := len(k.recs)
	if n == 0 || k.recs[n-1].version != k.head || k.space.hidden(k.recs[n-1], now) {
		return nil
	}
	return k.recs[n-1]
}

// expiring is a heap of the records that expire, the next one first. Dead ones
// stay until they are due.
type expiring []*record

func (h *expiring) push(r *record) {
	*h = append(*h, r)
	for i := len(*h) - 1; i > 0; {
		up := (i - 1) / 2
		if (*h)[up].due <= (*h)[i].due {
			break
		}
		(*h)[up], (*h)[i] = (*h)[i], (*h)[up]
		i = up
	}
}

// pop takes the next record out.
func (h *expiring) pop() *record {
	old := *h
	n := len(old) - 1
	r := old[0]
	old[0], old[n] = old[n], nil
	*h = old[:n]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if old[c].due < old[least].due {
				least = c
			}
		}
		if least == i {
			return r
		}
		old[i], old[least] = old[least], old[i]
		i = least
	}
}
