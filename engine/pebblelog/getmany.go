package pebblelog

import (
	"bytes"
	"context"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// GetMany implements [mainstem.Reader]. It is fastest if keys are sorted by their bytes.
func (l *Log) GetMany(ctx context.Context, space string, keys [][]byte) iter.Seq2[mainstem.Record, error] {
	return l.view().getMany(ctx, space, keys)
}

// GetMany implements [mainstem.Reader]. It is fastest if keys are sorted by their bytes.
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

// many is one GetMany under way. It shows the log at one position: the hot tier at that
// position, and one iterator over Pebble.
type many struct {
	*read
	yield       func(mainstem.Record, error) bool
	hot         [][]byte // by key, nil where the hot tier has nothing; nil slice: the hot tier is not used
	epoch       epoch    // read before the tiers, if the hot tier is used
	it          *pebble.Iterator
	body        format.Body
	lender      format.Lender
	prefix, end []byte // scratch
}

func (m *many) run(ctx context.Context, keys [][]byte) error {
	if err := m.open(keys); err != nil {
		return err
	}
	defer m.it.Close()
	if err := m.awaitPublished(ctx, m.op); err != nil {
		return err
	}
	for i, key := range keys {
		if err := m.step(ctx); err != nil {
			return err
		}
		found, err := m.find(i, key)
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

// hotMany is the largest number of keys looked up in the hot tier at once: commits wait
// meanwhile.
const hotMany = 4096

// open looks up all keys in the hot tier, and opens m.it for those that are not there. It tries
// once to get a consistent view of both tiers. If a group interfered, or if there are so many
// keys that commits would wait too long, it drains the space to Pebble instead, and m.it alone
// is the view.
func (m *many) open(keys [][]byte) error {
	if m.snap == nil && len(keys) <= hotMany {
		if done, err := m.openBoth(keys); done || err != nil {
			return err
		}
	}
	if err := m.drain(); err != nil {
		return err
	}
	return m.openCold()
}

// openBoth opens m.it and then looks up the keys in the hot tier. It returns true if nothing has
// left the hot tier meanwhile and no group has bypassed it. Then a key that the hot tier does
// not have has not changed since m.it was opened.
func (m *many) openBoth(keys [][]byte) (bool, error) {
	epoch, steady := m.l.epoch()
	if !steady {
		return false, nil
	}
	if err := m.openCold(); err != nil {
		return false, err
	}
	if m.l.betweenTiers != nil {
		m.l.betweenTiers()
	}
	hot := make([][]byte, len(keys))
	same := m.l.hot.GetMany(epoch.left, hot, func(dst []byte, i int) []byte { return m.appendKey(dst, keys[i]) })
	if same && m.l.edits.Load() == epoch.edits {
		m.hot, m.epoch = hot, epoch
		return true, nil
	}
	return false, m.it.Close()
}

func (m *many) openCold() (err error) {
	m.it, err = m.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	return err
}

// find reads the newest record of key i into m.body, and reports whether it is a live value.
func (m *many) find(i int, key []byte) (bool, error) {
	val, err := m.newest(i, key)
	if err != nil || val == nil {
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

// newest returns the newest body of key i, or nil if there is none.
func (m *many) newest(i int, key []byte) ([]byte, error) {
	if m.hot != nil && m.hot[i] != nil {
		return m.hot[i], nil
	}
	m.prefix = m.appendKey(m.prefix[:0], key)
	if m.neverWritten(m.prefix) {
		return nil, nil
	}
	if !m.seek() {
		err := m.it.Error()
		m.missing(m.prefix, m.epoch, err == nil && m.hot != nil)
		return nil, err
	}
	return m.it.ValueAndErr()
}

// appendKey appends to dst the slot of key, or the prefix of its records.
func (m *many) appendKey(dst, key []byte) []byte {
	if m.slots {
		return format.AppendSlotKey(dst, m.s.id, key)
	}
	return format.AppendPrefix(dst, format.TagVersion, m.s.id, key)
}

// seek moves the iterator to the newest record of the key with the slot or prefix m.prefix, and
// reports whether there is one.
func (m *many) seek() bool {
	if m.slots {
		return m.it.SeekPrefixGE(m.prefix) && bytes.Equal(m.it.Key(), m.prefix)
	}
	m.end = format.AppendPrefixEnd(m.end[:0], m.prefix)
	m.it.SetBounds(m.prefix, m.end) // SetBounds copies them
	return m.it.Last()
}
