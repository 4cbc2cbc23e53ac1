package natskv

import (
	"context"
	"time"
)

// DefaultAuditEvery is the default of [Options.AuditEvery].
const DefaultAuditEvery = time.Minute

// An operator can take keys out of a bucket without a message: by purging the
// stream, or removing messages. An audit compares the number of keys with the
// server's, and begins the index anew if they differ twice when both are at the
// same sequence.
//
// Keys that expire are gone without a message, too. Audits alone would not do for them: an
// audit only begins while nothing is delivered. So expired keys are removed at each audit,
// between deliveries, and before an index is full.

// auditDue has an audit run by itself if it is time. The caller holds mu.
func (x *index) auditDue() {
	if x.state != indexReady || x.auditing || time.Since(x.audited) < x.stream.store.auditEvery {
		return
	}
	x.auditing = x.stream.store.start(func(ctx context.Context) {
		info, err := x.stream.info(ctx)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.auditing, x.audited = false, time.Now()
		if err == nil {
			x.audit(info)
		}
	})
}

// audit compares the index with the server's description. The caller holds mu.
func (x *index) audit(info *streamInfo) {
	if x.state != indexReady {
		return
	}
	x.sweep()
	if info.State.LastSeq != x.applied {
		return
	}
	if uint64(x.keys.n+len(x.foreign)) == info.State.Subjects {
		x.differs = 0
		return
	}
	if x.differs++; x.differs < 2 {
		return
	}
	x.differs = 0
	x.feed.anew.Store(true)
	x.feed.wake()
}

// sweepDue forgets what has expired if it is time. The caller holds mu.
func (x *index) sweepDue() {
	if x.timed > 0 && time.Since(x.swept) >= x.stream.store.auditEvery {
		x.sweep()
	}
}

// sweep forgets what has expired. The caller holds mu.
func (x *index) sweep() {
	x.swept = time.Now()
	if x.timed == 0 {
		return
	}
	now := x.stream.store.clock.now()
	var expired []string
	x.keys.up("", func(i *item) bool {
		if i.expires != 0 && i.expires <= now {
			expired = append(expired, i.key)
		}
		return true
	})
	for _, key := range expired {
		x.drop(x.keys.get(key))
	}
}
