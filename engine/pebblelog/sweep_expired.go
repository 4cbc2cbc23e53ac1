package pebblelog

import (
	"bytes"
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// sweepExpired handles the first entries of the expiry index that are due. It resets next before
// it reads the index. So an entry that becomes visible after the read sets next again, and an
// earlier one is in the index: no expiry is lost.
func (l *Log) sweepExpired(ctx context.Context) (int, error) {
	l.sweeper.next.Store(0)
	m := l.moment()
	due, next, err := l.dueEntries([]byte{format.TagExpiry}, m.Due())
	if err != nil {
		return 0, mapError("sweep", err)
	}
	if next != 0 {
		l.sweeper.expiresAt(next)
	}
	return len(due), l.expireAll(ctx, due)
}

// sweepHeld does the same for records that were written since a jump of the clock that is held.
// Their entries are at readings after the jump, among entries of records from before the jump.
// The latter are examined and stay, since the jump must not remove those records.
func (l *Log) sweepHeld(ctx context.Context) error {
	m := l.moment()
	if m.Hold == nil {
		return nil
	}
	from := format.AppendExpiryKey(nil, m.Hold.First(), 0, nil, 0)
	for {
		due, next, err := l.dueEntries(from, m.Now)
		if err != nil {
			return mapError("sweep", err)
		}
		if err := l.expireAll(ctx, due); err != nil {
			return err
		}
		if len(due) < sweepChunk {
			if next != 0 {
				l.sweeper.expiresAt(m.Hold.Trusted(next))
			}
			return nil
		}
		last := due[len(due)-1]
		from = append(format.AppendExpiryKey(from[:0], last.At, last.Space, last.Key, last.Version), 0)
	}
}

// expireAll handles entries that are due.
func (l *Log) expireAll(ctx context.Context, due []format.Expiry) error {
	if len(due) == 0 {
		return nil
	}
	return l.removal(ctx, "sweep", func(t *tx) error {
		byID := map[uint32]string{}
		for name, s := range l.spaces.Load().byName {
			byID[s.id] = name
		}
		for _, e := range due {
			if e.At > t.Now {
				continue // the clock was set back meanwhile
			}
			if later, err := t.expiresLater(byID, e); later || err != nil {
				if err != nil {
					return err
				}
				continue
			}
			t.del(format.AppendExpiryKey(nil, e.At, e.Space, e.Key, e.Version))
			name, ok := byID[e.Space]
			if !ok {
				continue // the space was dropped
			}
			if err := t.expire(t.space(name), e.Key, e.Version); err != nil {
				return err
			}
		}
		return nil
	})
}

// dueEntries reads the index from the key from on. It returns up to sweepChunk entries that are
// due at until, in unix ns, and the time of the entry after them, or 0 if there is none.
func (l *Log) dueEntries(from []byte, until int64) (due []format.Expiry, next int64, err error) {
	if !l.readers.begin() {
		return nil, 0, &mainstem.Error{Kind: mainstem.KindClosed, Op: "sweep"}
	}
	defer l.readers.end()
	if err := l.drainHot(); err != nil {
		return nil, 0, err
	}
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{format.TagExpiry + 1}})
	if err != nil {
		return nil, 0, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		e, err := format.DecodeExpiryKey(it.Key())
		if err != nil {
			return nil, 0, err
		}
		if e.At > until || len(due) == sweepChunk {
			return due, e.At, nil
		}
		e.Key = bytes.Clone(e.Key)
		due = append(due, e)
	}
	return due, 0, it.Error()
}
