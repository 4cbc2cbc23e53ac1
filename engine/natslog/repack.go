package natslog

import (
	"context"
	"errors"
	"slices"
)

// repackFacts is how many facts a frame must have come with to be repacked: smaller
// ones waste little.
const repackFacts = 8

// repack states again what still counts of frames that are mostly dead, so that these
// can be deleted. Records keep version, position and time.
func (l *Log) repack(ctx context.Context) error {
	for {
		u := l.nextSparse()
		if u == nil {
			return nil
		}
		if err := l.repackUnit(ctx, u); err != nil {
			l.mu.Lock()
			l.st.queueSparse(u)
			l.mu.Unlock()
			return err
		}
	}
}

func (l *Log) repackUnit(ctx context.Context, u *unit) error {
	records := l.residents(u)
	bodies := make([][]byte, len(records))
	for start := 0; start < len(records); {
		n := chunk(records[start:])
		raw, err := l.raw(ctx, records[start:start+n])
		if errors.Is(err, errGone) { // another process was faster
			err = l.catchUp(ctx)
			raw = make([][]byte, n)
		}
		if err != nil {
			return l.explain(ctx, "sweep", "", nil, err)
		}
		copy(bodies[start:], raw)
		start += n
	}
	return l.do(ctx, "sweep", groupBytes, func(t *tx) (bool, error) {
		t.restate(u, records, bodies)
		return true, nil
	})
}

// nextSparse takes out the next frame that is worth repacking.
func (l *Log) nextSparse() *unit {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.st.sparse) > 0 {
		u := l.st.sparse[0]
		l.st.sparse = l.st.sparse[1:]
		u.queued = false
		if l.st.current(u) && u.refs > 0 && u.sparse() && u.facts >= repackFacts && u != l.st.newest && u != l.st.clock.proof {
			return u
		}
	}
	return nil
}

// residents returns the live records of u.
func (l *Log) residents(u *unit) (out []*record) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	seen := map[*record]bool{} // a frame that wrote and rewrote a record holds it twice
	for _, h := range u.holds {
		if r := h.key.at(h.version); r != nil && r.unit == u && !seen[r] && !h.key.space.dropped {
			seen[r] = true
			out = append(out, r)
		}
	}
	return out
}

// raw reads the encoded bodies of records.
func (l *Log) raw(ctx context.Context, records []*record) ([][]byte, error) {
	payloads := map[uint64][]byte{}
	out := make([][]byte, len(records))
	for i, r := range records {
		p, ok := payloads[r.seq]
		if !ok {
			var err error
			if p, ok = l.cache.get(r.seq); !ok {
				if p, err = l.get(ctx, r.seq); err != nil {
					return nil, err
				}
			}
			payloads[r.seq] = p
		}
		if _, err := r.decode(p); err != nil {
			return nil, err
		}
		out[i] = p[r.off : r.off+r.len]
	}
	return out, nil
}

// restate adds the facts of u that still count. The state may have changed since
// records were found to be live.
func (t *tx) restate(u *unit, records []*record, bodies [][]byte) {
	if !t.s.current(u) {
		return
	}
	for i, r := range records {
		if r.dead || bodies[i] == nil {
			continue
		}
		moved := *r
		moved.unit, moved.seq = nil, 0
		t.facts = append(t.facts, fact{kind: factRestated, space: r.key.space.id, key: []byte(r.key.name), rec: &moved, body: bodies[i]})
	}
	t.restateKeys(u)
	for _, base := range t.s.spaces {
		if base.defined == u || base.active == u {
			t.state(t.space(base.name))
		}
	}
	for _, r := range u.receipts {
		if r.unit == u && t.s.receipts[r.id] == r {
			t.acknowledge(r)
		}
	}
}

// restateKeys adds the heads and floors that u was the last to state.
func (t *tx) restateKeys(u *unit) {
	keys := slices.Clone(u.tells)
	for _, h := range u.holds {
		keys = append(keys, h.key)
	}
	seen := map[*key]bool{}
	for _, k := range keys {
		if !seen[k] && k.latest == u && !k.space.dropped {
			t.facts = append(t.facts, fact{kind: factKey, space: k.space.id, key: []byte(k.name), head: k.head, floor: k.floor})
		}
		seen[k] = true
	}
}
