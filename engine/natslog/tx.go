package natslog

import (
	"bytes"
	"fmt"
	"maps"
	"math/bits"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// tx evaluates batches, one after the other, against the state and the batches
// before them, and collects the facts that they lead to. The state itself does not
// change: that happens when the stream has taken the facts. The lock of the log is
// held while it works.
type tx struct {
	s     *state
	now   *wallclock.Moment // what batches are judged by, and times to live count from
	time  int64             // of records
	limit int               // bytes in one message

	head     uint64
	nextID   uint32
	spaces   map[string]*txSpace
	views    map[viewKey]*view
	receipts map[string]*receipt
	facts    []fact

	epoch int // number of the batch; see touch
	saved struct {
		head, facts uint64
		nextID      uint32
		views       []savedView
		spaces      []savedSpace
	}
}

type viewKey struct {
	space uint32
	key   string
}

type savedView struct {
	v      *view
	before view
}

type savedSpace struct {
	name   string
	sp     *txSpace // nil if there was none
	before txSpace
}

// txSpace is a space as the transaction sees it.
type txSpace struct {
	base    *space // nil if the transaction created it
	id      uint32
	name    string
	policy  mainstem.Policy
	created int64
	updated int64
	last    uint64
	floor   uint64
	dropped bool
	epoch   int
}

func newTx(s *state, now wallclock.Moment, limit int) *tx {
	return &tx{
		s: s, now: &now, time: max(now.Now, s.time), limit: limit, head: s.head, nextID: s.nextID,
		spaces: map[string]*txSpace{}, views: map[viewKey]*view{},
	}
}

// begin marks the place that rollback returns to.
func (t *tx) begin() {
	t.epoch++
	t.saved.head, t.saved.nextID, t.saved.facts = t.head, t.nextID, uint64(len(t.facts))
	t.saved.views, t.saved.spaces = t.saved.views[:0], t.saved.spaces[:0]
}

// rollback takes back everything since begin.
func (t *tx) rollback() {
	for _, b := range t.saved.views {
		*b.v = b.before
	}
	for _, b := range t.saved.spaces {
		if b.sp == nil {
			delete(t.spaces, b.name)
			continue
		}
		*b.sp = b.before
		t.spaces[b.name] = b.sp
	}
	t.head, t.nextID, t.facts = t.saved.head, t.saved.nextID, t.facts[:t.saved.facts]
}

// commit evaluates b and returns its receipt.
func (t *tx) commit(b *mainstem.Batch) (mainstem.Receipt, error) {
	if b.ID != "" {
		if r := t.known(b.ID); r != nil {
			out := r.receipt()
			out.Duplicate = true
			return out, nil
		}
	}
	if err := t.test(b.Conditions()); err != nil {
		return mainstem.Receipt{}, err
	}
	for _, e := range b.Ensures() {
		if t.space(e.Space) == nil {
			t.create(e.Space, e.Policy)
		}
	}
	r := &receipt{id: b.ID, time: t.time}
	if b.Len() > 0 {
		before := t.head
		r.versions = make([]mainstem.Version, b.Len())
		for i := range b.Writes() {
			v, err := t.write(&b.Writes()[i])
			if err != nil {
				return mainstem.Receipt{}, err
			}
			r.versions[i] = mainstem.Version(v)
		}
		if t.head > before {
			r.first, r.last = before+1, t.head
		}
	}
	if b.ID != "" {
		if t.receipts == nil {
			t.receipts = map[string]*receipt{}
		}
		t.receipts[b.ID] = r
		t.acknowledge(r)
	}
	return r.receipt(), nil
}

// receiptBytes bounds the versions in one fact, so that its message is not too large.
const receiptBytes = 40 << 10

// acknowledge adds the facts of r: one, unless its versions take more than receiptBytes.
func (t *tx) acknowledge(r *receipt) {
	for rest := r.versions; ; {
		n := 0
		for size := 0; n < len(rest) && size < receiptBytes; n++ {
			size += (bits.Len64(uint64(rest[n])|1) + 6) / 7 // as a uvarint
		}
		part := *r
		part.versions, rest = rest[:n:n], rest[n:]
		t.facts = append(t.facts, fact{kind: factReceipt, receipt: &part})
		if len(rest) == 0 {
			return
		}
	}
}

// known returns the receipt of the batch that was committed with an ID, or nil.
func (t *tx) known(id string) *receipt {
	if r := t.s.receipts[id]; r != nil {
		return r
	}
	return t.receipts[id]
}

// receipt is what the contract gives to the caller, who owns it.
func (r *receipt) receipt() mainstem.Receipt {
	if len(r.versions) == 0 {
		return mainstem.Receipt{}
	}
	return mainstem.Receipt{
		First: mainstem.Position(r.first), Last: mainstem.Position(r.last), Time: wall(r.time),
		Versions: append([]mainstem.Version(nil), r.versions...),
	}
}

func wall(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// test checks conditions against what is before the batch.
func (t *tx) test(conditions []mainstem.Condition) error {
	for i := range conditions {
		c := conditions[i]
		var version, pos uint64
		live := false
		if sp := t.space(c.Space); sp != nil {
			version, pos, live = t.peek(sp, c.Key)
		}
		ok := false
		switch c.Test {
		case mainstem.TestVersion:
			ok = version == uint64(c.Version)
		case mainstem.TestAbsent:
			ok = !live
		case mainstem.TestExists:
			ok = live
		case mainstem.TestNotAfter:
			ok = pos <= uint64(c.Position)
		}
		if !ok {
			c.Key = bytes.Clone(c.Key)
			e := &mainstem.Error{Kind: mainstem.KindConflict, Op: "commit", Space: c.Space, Key: c.Key, Want: c,
				Got: mainstem.Version(version), GotLive: live, Outcome: mainstem.NotWritten}
			if c.Test == mainstem.TestNotAfter {
				e.GotPosition = mainstem.Position(pos)
			}
			return e
		}
	}
	return nil
}

// peek returns the newest version of a key, the position of its newest record, and whether
// it has a live value.
func (t *tx) peek(sp *txSpace, name []byte) (version, pos uint64, live bool) {
	if v := t.views[viewKey{sp.id, string(name)}]; v != nil {
		if v.pos == 0 {
			return v.head, t.traces(sp), false
		}
		return v.head, v.pos, v.live(t.now)
	}
	if sp.base == nil {
		return 0, 0, false
	}
	k := sp.base.keys[string(name)]
	if k == nil {
		return 0, t.traces(sp), false
	}
	r := k.newest(t.now)
	return k.head, k.pos, r != nil && r.tomb == mainstem.Live
}

// traces returns a position after which no key of sp was written of which nothing is left.
// Only a space with bounded history forgets keys, and then has a floor.
func (t *tx) traces(sp *txSpace) uint64 {
	if sp.base == nil || sp.base.floor == 0 {
		return 0
	}
	return max(sp.base.traces, t.s.unseen)
}

// space returns a space as the transaction sees it, or nil.
func (t *tx) space(name string) *txSpace {
	if sp := t.spaces[name]; sp != nil {
		if sp.dropped {
			return nil
		}
		return sp
	}
	base := t.s.spaces[name]
	if base == nil {
		return nil
	}
	sp := &txSpace{base: base, id: base.id, name: name, policy: base.policy, created: base.created,
		updated: base.updated, last: base.last, floor: base.floor}
	t.spaces[name] = sp
	return sp
}

// change makes the change of sp that follows undoable.
func (t *tx) change(sp *txSpace) {
	if sp.epoch != t.epoch {
		t.saved.spaces = append(t.saved.spaces, savedSpace{sp.name, sp, *sp})
		sp.epoch = t.epoch
	}
}

func (t *tx) create(name string, p mainstem.Policy) {
	before := t.spaces[name]
	saved := savedSpace{name: name, sp: before}
	if before != nil {
		saved.before = *before
	}
	t.saved.spaces = append(t.saved.spaces, saved)
	sp := &txSpace{id: t.nextID, name: name, policy: clonePolicy(p), created: t.time, updated: t.time, epoch: t.epoch}
	t.nextID++
	t.spaces[name] = sp
	t.state(sp)
}

// state adds the fact of what sp is.
func (t *tx) state(sp *txSpace) {
	t.facts = append(t.facts, fact{kind: factSpace, space: sp.id, name: sp.name,
		def:  format.Space{ID: sp.id, Created: sp.created, Policy: clonePolicy(sp.policy)},
		last: sp.last, floor: sp.floor, updated: sp.updated})
}

func (t *tx) drop(sp *txSpace) {
	t.change(sp)
	sp.dropped = true
	t.facts = append(t.facts, fact{kind: factDrop, space: sp.id})
}

func clonePolicy(p mainstem.Policy) mainstem.Policy {
	p.Metadata = maps.Clone(p.Metadata)
	return p
}

// write makes one write of a batch true and returns the version it wrote, 0 if none.
func (t *tx) write(w *mainstem.Write) (uint64, error) {
	sp := t.space(w.Space)
	if sp == nil {
		return 0, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "commit", Space: w.Space}
	}
	if n := w.Size() + 4*len(w.Headers) + encodedLen(len(w.Key)+factRoom) + factRoom + envelope; n > t.limit {
		return 0, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "commit", Space: w.Space, Key: bytes.Clone(w.Key),
			Err:  fmt.Errorf("the record takes %d bytes of a message: the server's limit is %d", n, t.limit),
			Hint: "raise max_payload of the NATS server"}
	}
	v := t.view(sp, w.Key)
	switch w.Op {
	case mainstem.OpPut:
		expires := int64(0)
		if w.TTL > 0 {
			expires = wallclock.ExpiresAt(t.now.Now, int64(w.TTL))
		}
		return t.put(v, &record{count: max(w.Count, 1), expires: expires, size: int64(w.Size())}, w.Value, w.Headers)
	case mainstem.OpDelete, mainstem.OpPurge:
		return t.end(v, w)
	case mainstem.OpForget:
		if v.n > 0 {
			v.forget()
			t.tell(v, true)
		}
	case mainstem.OpTruncate:
		return 0, t.truncate(v, w)
	case mainstem.OpRewrite, mainstem.OpRemove:
		return 0, t.amend(v, w)
	}
	return 0, nil
}

// put writes r as the next record of v.
func (t *tx) put(v *view, r *record, value []byte, headers mainstem.Headers) (uint64, error) {
	sp := v.sp
	if v.head == 0 {
		v.head = sp.floor
	}
	if v.head > maxVersion-uint64(r.count) {
		return 0, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "commit", Space: sp.name, Key: bytes.Clone(v.name),
			Err: fmt.Errorf("version %d and %d items more is beyond the largest version %d", v.head, r.count, uint64(maxVersion))}
	}
	t.head++
	v.head += uint64(r.count)
	r.version, r.pos, r.time, r.clock = v.head, t.head, t.time, t.now.Now
	v.pos = r.pos
	v.append(r, sp.policy.History)
	t.facts = append(t.facts, fact{kind: factRecord, space: sp.id, key: v.name, rec: r, floor: v.floor, value: value, headers: headers})
	t.change(sp)
	sp.last, sp.updated = t.head, t.time
	return r.version, nil
}

// maxVersion leaves room above every version.
const maxVersion = 1<<63 - 1

// end writes the tombstone of a delete or a purge if the key is live.
func (t *tx) end(v *view, w *mainstem.Write) (uint64, error) {
	if !v.live(t.now) {
		return 0, nil
	}
	r := &record{count: 1, tomb: mainstem.Deleted, size: int64(w.Size() - len(w.Value))}
	if w.Op == mainstem.OpPurge {
		r.tomb = mainstem.Purged
		v.forget()
	}
	return t.put(v, r, nil, w.Headers)
}

// tell adds the fact of the head and the floor of v.
func (t *tx) tell(v *view, erase bool) {
	t.facts = append(t.facts, fact{kind: factKey, erase: erase, space: v.sp.id, key: v.name, head: v.head, floor: v.floor})
}

func (t *tx) truncate(v *view, w *mainstem.Write) error {
	if v.n == 0 {
		return nil
	}
	before := uint64(w.Version)
	if before > v.head+1 {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "commit", Space: w.Space, Key: bytes.Clone(w.Key),
			Err: fmt.Errorf("truncate before version %d from the future: the newest is %d; use at most %d", w.Version, v.head, v.head+1)}
	}
	if v.truncate(before) {
		t.tell(v, false)
	}
	return nil
}

// amend rewrites or removes the record that ends at the version of w.
func (t *tx) amend(v *view, w *mainstem.Write) error {
	i := v.at(uint64(w.Version))
	if i < 0 || v.sp.hidden(v.rec(i), t.now) {
		return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "commit", Space: w.Space, Key: bytes.Clone(w.Key),
			Err: fmt.Errorf("%s: no record ends at version %d", w.Op, w.Version)}
	}
	if w.Op == mainstem.OpRemove {
		t.removeAt(v, i)
		return nil
	}
	old := v.rec(i)
	r := &record{version: old.version, pos: old.pos, time: old.time, clock: old.clock, expires: old.expires, count: old.count, tomb: old.tomb, size: int64(w.Size())}
	value := w.Value
	if r.tomb != mainstem.Live { // a tombstone has no value
		r.size -= int64(len(value))
		value = nil
	}
	v.edits = append(v.edits, edit{old.version, r})
	t.facts = append(t.facts, fact{kind: factRestated, erase: true, space: v.sp.id, key: v.name, rec: r, value: value, headers: w.Headers})
	return nil
}

// removeAt takes the i-th record out of v.
func (t *tx) removeAt(v *view, i int) {
	if i == v.lo {
		v.truncate(v.rec(i).version + 1)
		t.tell(v, false)
		return
	}
	version := v.rec(i).version
	v.edits = append(v.edits, edit{version, nil})
	v.n--
	t.facts = append(t.facts, fact{kind: factHole, space: v.sp.id, key: v.name, version: version})
}

// hidden reports whether r is no longer to be seen at now.
func (sp *txSpace) hidden(r *record, now *wallclock.Moment) bool {
	return r.over(now, int64(sp.policy.MaxAge))
}
