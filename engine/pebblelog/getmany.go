package pebblelog

import (
	"bytes"
	"context"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// GetMany implements [mainstem.Reader]. Keys in the order of their bytes are found fastest.
func (l *Log) GetMany(ctx context.Context, space string, keys [][]byte) iter.Seq2[mainstem.Record, error] {
	return l.view().getMany(ctx, space, keys)
}

// GetMany implements [mainstem.Reader].
func (s *Snapshot) GetMany(ctx context.Context, space string, keys [][]byte) iter.Seq2[mainstem.Record, error] {
	return s.view().getMany(ctx, space, keys)
}

func (v view) getMany(ctx context.Context, space string, keys [][]byte) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		if err := mainstem.ValidateKeys(keys); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		if len(keys) == 0 {
			return
		}
		r, err := v.begin(ctx, "get many", space)
		if err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		defer r.end()
		m := many{read: &r, yield: yield}
		m.lender.Record.Space = space
		if err := m.run(ctx, keys); err != nil {
			yield(mainstem.Record{}, mapError("get many", err))
		}
	}
}

// many is one GetMany under way: one iterator, which shows one position, visits the keys.
type many struct {
	*read
	yield       func(mainstem.Record, error) bool
	it          *pebble.Iterator
	body        format.Body
	lender      format.Lender
	prefix, end []byte // scratch
}

func (m *many) run(ctx context.Context, keys [][]byte) error {
	if err := m.drain(); err != nil {
		return err
	}
	it, err := m.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return err
	}
	defer it.Close()
	m.it = it
	if err := m.awaitPublished(ctx, m.op); err != nil {
		return err
	}
	for _, key := range keys {
		if err := m.step(ctx); err != nil {
			return err
		}
		found, err := m.find(key)
		if err != nil {
			return err
		}
		more := false
		if found {
			m.lender.Fill(key, &m.body)
			more = lend(m.yield, &m.lender.Record)
		} else {
			more = m.yield(mainstem.Record{Space: m.s.name, Key: key}, nil)
		}
		if !more {
			return nil
		}
	}
	return nil
}

// find reads the newest record of key into m.body and reports whether it is a live value.
func (m *many) find(key []byte) (bool, error) {
	if !m.seek(key) {
		return false, m.it.Error()
	}
	val, err := m.it.ValueAndErr()
	if err != nil {
		return false, err
	}
	b := &m.body
	if err := b.Decode(val); err != nil {
		return false, err
	}
	if b.Position > m.head() {
		if err := m.doubtful(m.op, b); err != nil {
			return false, err
		}
	}
	return b.Tombstone == mainstem.Live && m.visible(b), nil
}

// seek moves the iterator to what is newest of key, and reports whether there is anything.
func (m *many) seek(key []byte) bool {
	if m.slots {
		m.prefix = format.AppendSlotKey(m.prefix[:0], m.s.id, key)
		return m.it.SeekPrefixGE(m.prefix) && bytes.Equal(m.it.Key(), m.prefix)
	}
	m.prefix = format.AppendPrefix(m.prefix[:0], format.TagVersion, m.s.id, key)
	m.end = format.AppendPrefixEnd(m.end[:0], m.prefix)
	m.it.SetBounds(m.prefix, m.end) // copies them
	return m.it.Last()
}
