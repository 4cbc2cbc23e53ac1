package pebblelog

import (
	"bytes"
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// A space without a feed has no index by age, so its records that are too old are searched among
// all of them. That happens outside of commits: these only test and remove what was found.

// aged is a record that was found to be too old.
type aged struct {
	key     []byte // of the user
	version uint64
}

// sweepAged removes the records of a space without a feed that are older than its limit.
func (l *Log) sweepAged(ctx context.Context, s *space) error {
	tags := []byte{format.TagVersion}
	if slots(s.policy.Load()) {
		tags = []byte{format.TagOlder, format.TagSlot}
	}
	for _, tag := range tags {
		for from := format.AppendHead(nil, tag, s.id); from != nil; {
			var found []aged
			var err error
			if found, from, err = l.searchAged(ctx, s, from); err != nil {
				return mapError("sweep", err)
			}
			if err := l.evictAged(ctx, s, found); err != nil {
				return err
			}
		}
	}
	return nil
}

// searchAged returns up to sweepChunk records that are too old, of those under Pebble's keys from
// the key from on with the same tag, and the key at which the search goes on. That is nil at the
// end.
func (l *Log) searchAged(ctx context.Context, s *space, from []byte) (found []aged, next []byte, err error) {
	if !l.readers.begin() {
		return nil, nil, &mainstem.Error{Kind: mainstem.KindClosed, Op: "sweep"}
	}
	defer l.readers.end()
	if err := l.drainSpace(s); err != nil {
		return nil, nil, err
	}
	it, err := l.db.NewIter(&pebble.IterOptions{
		LowerBound: from, UpperBound: format.AppendSuccessor(nil, format.AppendHead(nil, from[0], s.id)),
	})
	if err != nil {
		return nil, nil, err
	}
	defer it.Close()
	m, maxAge, n := l.moment(), int64(s.policy.Load().MaxAge), 0
	err = walkBodies(it, func(k []byte, b *format.Body) error {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return mainstem.Ended(ctx, "sweep", time.Time{}, "")
		}
		if n%1024 == 0 && l.readers.closed.Load() {
			return &mainstem.Error{Kind: mainstem.KindClosed, Op: "sweep"}
		}
		if m.rebase(b); b.VersionMarker || !m.Over(b.Clock, 0, maxAge) {
			return nil
		}
		if len(found) == sweepChunk {
			next = bytes.Clone(k)
			return errEnough
		}
		key, err := userKey(k)
		found = append(found, aged{bytes.Clone(key), b.Version})
		return err
	})
	if err == errEnough {
		err = nil
	}
	return found, next, err
}

// evictAged removes the records found that are still there and still too old.
func (l *Log) evictAged(ctx context.Context, s *space, found []aged) error {
	if len(found) == 0 {
		return nil
	}
	return l.removal(ctx, "sweep", func(t *tx) error {
		ts := t.space(s.name)
		if ts == nil || ts.s != s {
			return nil // it was dropped
		}
		for _, r := range found {
			b, err := t.bodyAt(ts, r.key, r.version)
			if err != nil {
				return err
			}
			if b == nil || b.VersionMarker || !t.Over(b.Clock, 0, ts.maxAge) {
				continue
			}
			if err := t.evict(ts, r.key, r.version); err != nil {
				return err
			}
		}
		return nil
	})
}
