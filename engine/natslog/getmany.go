package natslog

import (
	"context"
	"iter"

	"github.com/mainstemdev/mainstem"
)

// GetMany implements [mainstem.Reader]. Which records it yields is fixed when the loop
// begins. If it takes longer than Options.Grace while another process removes records, it
// may fail with Unavailable.
func (l *Log) GetMany(ctx context.Context, space string, keys [][]byte) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		err := mainstem.ValidateKeys(keys)
		if err == nil {
			err = l.ready(ctx, "get many")
		}
		if err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		if len(keys) == 0 {
			return
		}
		defer l.readers.enter()()
		m := many{space: space, keys: keys, yield: yield}
		if err := m.find(l); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		if l.lend(ctx, "get many", m.records, m.gone, m.lend) {
			m.missing(len(keys))
		}
	}
}

// many is one GetMany under way.
type many struct {
	space   string
	keys    [][]byte
	yield   func(mainstem.Record, error) bool
	records []*record
	at      []int // which of keys each of the records is of
	next    int   // of keys: those before have been yielded
}

// find looks for all keys at one moment.
func (m *many) find(l *Log) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	sp, err := l.spaceLocked("get many", m.space)
	if err != nil {
		return err
	}
	now := l.nowLocked()
	for i, name := range m.keys {
		if k := sp.keys[string(name)]; k != nil {
			if r := k.newest(&now); r != nil && r.tomb == mainstem.Live {
				m.records, m.at = append(m.records, r), append(m.at, i)
			}
		}
	}
	return nil
}

// lend yields a record, and before it one of version 0 for each key that has none.
func (m *many) lend(r mainstem.Record, err error) bool {
	if err != nil {
		return m.yield(r, err)
	}
	if !m.missing(m.at[0]) {
		return false
	}
	m.at, m.next = m.at[1:], m.next+1
	return m.yield(r, nil)
}

// missing yields records of version 0 for the keys before the n-th.
func (m *many) missing(n int) bool {
	for ; m.next < n; m.next++ {
		if !m.yield(mainstem.Record{Space: m.space, Key: m.keys[m.next]}, nil) {
			return false
		}
	}
	return true
}

// gone says that a record has died and left the stream since it was found.
func (m *many) gone(r *record) error {
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "get many", Space: m.space, Key: []byte(r.key.name),
		Hint: "it took longer than Options.Grace and the record is no more: get fewer keys at once, or raise it"}
}
