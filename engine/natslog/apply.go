package natslog

import (
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// apply makes the facts of f true. They came with the unit u, whose messages are
// the newest of the stream. It returns the spaces in which records appeared.
func (s *state) apply(f *frame, u *unit) (touched []*space) {
	s.units[u.seq] = u
	s.seq, s.gap = u.seq+uint64(u.parts)-1, false
	if f.head > s.head {
		s.observe(f, u)
	}
	s.head, s.time, s.nextID = max(s.head, f.head), max(s.time, f.time), max(s.nextID, f.nextID)
	old := s.newest
	s.newest = u.retain()
	for i := range f.facts {
		ft := &f.facts[i]
		if i > 0 && ft.continues(&f.facts[i-1]) {
			whole := f.facts[i-1].receipt
			whole.versions = append(whole.versions, ft.receipt.versions...)
			ft.receipt = whole
			continue
		}
		if sp := s.applyFact(ft, f, u); sp != nil && (len(touched) == 0 || touched[len(touched)-1] != sp) {
			touched = append(touched, sp)
		}
	}
	u.facts = u.refs - u.implied - 1 // it is the newest, too
	if old != nil {
		s.release(old)
	}
	return touched
}

// applyFact makes one fact true and returns the space in which a record appeared.
func (s *state) applyFact(ft *fact, f *frame, u *unit) *space {
	switch ft.kind {
	case factRecord, factRestated:
		return s.applyRecord(ft, f, u)
	case factKey:
		if sp := s.spaceOf(ft.space); !sp.dropped {
			k := sp.keyOf(ft.key)
			if ft.erase {
				s.erase(k, ft.floor)
			}
			if ft.head > k.top {
				k.written(ft.head, f.head)
			}
			s.tell(k, u, ft.head, ft.floor, false)
			u.tells = append(u.tells, k)
			s.cut(k)
		}
	case factHole:
		if sp := s.spaceOf(ft.space); !sp.dropped && sp.keys[string(ft.key)] != nil {
			s.remove(sp.keys[string(ft.key)], ft.version, u)
		}
	case factSpace:
		s.define(ft, u)
	case factDrop:
		s.drop(s.spaceOf(ft.space), u)
	case factReceipt:
		ft.receipt.clock, ft.receipt.after = ft.receipt.time, f.head
		if ft.receipt.time == f.time { // else its batch made no record, or it is stated again
			ft.receipt.clock = f.clock
		}
		s.acknowledge(ft.receipt, u)
	}
	return nil
}

func (s *state) applyRecord(ft *fact, f *frame, u *unit) *space {
	sp := s.spaceOf(ft.space)
	if sp.dropped {
		return nil
	}
	k := sp.keyOf(ft.key)
	r := ft.rec
	r.unit, r.seq = u, u.seq+uint64(ft.part)
	k.phys++
	sp.phys++
	u.holds = append(u.holds, held{k, r.version})
	k.written(r.version, r.pos)
	if ft.kind == factRestated {
		s.clock.restated(r)
		if old := k.at(r.version); old != nil && ft.erase {
			old.unit.erase = true
		}
		s.insert(k, r)
		s.cut(k)
		return nil
	}
	s.insert(k, r)
	s.tell(k, u, r.version, ft.floor, true)
	s.cut(k)
	sp.last, sp.updated = max(sp.last, r.pos), max(sp.updated, f.time)
	if sp.active != u {
		s.release(sp.active)
		sp.active = u.retain()
	}
	return sp
}

// erase marks the units of the records of k below floor: their bytes are to be
// overwritten, not only forgotten.
func (s *state) erase(k *key, floor uint64) {
	for _, r := range k.recs {
		if r.version < floor {
			r.unit.erase = true
		}
	}
}

// define creates or changes a space, or only states again what it is.
func (s *state) define(ft *fact, u *unit) {
	sp := s.spaceOf(ft.space)
	if sp.dropped {
		return
	}
	early := sp.name == "" // facts about its keys came before
	sp.name, sp.policy, sp.created = ft.name, ft.def.Policy, ft.def.Created
	if early && sp.policy.History != 0 {
		for _, r := range sp.order {
			if r.tomb != mainstem.Live {
				sp.tombs = append(sp.tombs, r)
			}
		}
	}
	sp.last, sp.updated, sp.floor = max(sp.last, ft.last), max(sp.updated, ft.updated), max(sp.floor, ft.floor)
	s.spaces[sp.name] = sp
	sp.phys++
	u.defines = append(u.defines, sp)
	s.release(sp.defined)
	s.release(sp.active)
	sp.defined, sp.active = u.retain(), u.retain()
}

// drop forgets a space. The unit that says so stays until the last record and the last
// definition of the space have left the stream.
func (s *state) drop(sp *space, u *unit) {
	if sp.dropped {
		return
	}
	for _, k := range sp.keys {
		for _, r := range k.recs {
			r.dead = true
			s.release(r.unit)
		}
		s.untell(k)
	}
	s.release(sp.defined)
	s.release(sp.active)
	if s.spaces[sp.name] == sp {
		delete(s.spaces, sp.name)
	}
	sp.dropped = true
	sp.keys, sp.index, sp.order, sp.defined, sp.active = nil, keyIndex{}, nil, nil, nil
	sp.dropper = u.retain()
}

func (s *state) acknowledge(r *receipt, u *unit) {
	if old := s.receipts[r.id]; old != nil {
		s.release(old.unit)
		old.unit = u.retain() // stated again
		u.receipts = append(u.receipts, old)
		return
	}
	r.unit = u.retain()
	u.receipts = append(u.receipts, r)
	s.receipts[r.id] = r
	s.receiptOrder = append(s.receiptOrder, r)
}

// forgetReceipts forgets batches that were committed longer ago than age, ns.
func (s *state) forgetReceipts(now *wallclock.Moment, age int64) {
	n := 0
	for n < len(s.receiptOrder) {
		r := s.receiptOrder[n]
		clock, _ := now.Rebase(r.after, r.clock, 0)
		if now.Hold == nil && clock > now.Now && clock-now.Now > age {
			r.clock = now.Now // it was written by a clock far ahead
		}
		if !now.Over(clock, 0, age) {
			break
		}
		s.release(r.unit)
		delete(s.receipts, r.id)
		s.receiptOrder[n] = nil
		n++
	}
	s.receiptOrder = s.receiptOrder[n:]
}

// deleted notes that the messages of u have left the stream.
func (s *state) deleted(u *unit) {
	if !s.current(u) {
		return
	}
	delete(s.units, u.seq)
	for _, later := range u.before {
		s.release(later)
	}
	for _, h := range u.holds {
		h.key.phys--
		if h.key.idle() {
			s.idle = append(s.idle, h.key)
		}
		s.leave(h.key.space)
	}
	for _, sp := range u.defines {
		s.leave(sp)
	}
	u.holds, u.defines, u.tells, u.before, u.receipts = nil, nil, nil, nil, nil
}

// leave notes that a record or a definition of sp has left the stream.
func (s *state) leave(sp *space) {
	if sp.phys--; sp.phys == 0 && sp.dropped {
		s.release(sp.dropper)
		sp.dropper = nil
		delete(s.byID, sp.id)
	}
}

// info describes a space.
func (sp *space) info() mainstem.SpaceInfo {
	return mainstem.SpaceInfo{
		Name: sp.name, Policy: clonePolicy(sp.policy), Created: wall(sp.created), Updated: wall(sp.updated),
		Keys: sp.live.keys, Records: sp.live.records, Bytes: sp.live.bytes, Last: mainstem.Position(sp.last),
	}
}
