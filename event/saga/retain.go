package saga

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Bounds of the pause between two rounds of retain, which is a tenth of the shortest time to keep.
const (
	retainSoonest = time.Minute
	retainLatest  = time.Hour
)

// retention is how long sagas in some statuses stay.
type retention struct {
	keep     time.Duration // 0: without end
	statuses []Status
}

// retentions returns the retentions of f.
func (f *Follow) retentions() []retention {
	return []retention{{f.Keep, []Status{Completed, Compensated}}, {f.KeepFailed, []Status{Failed, CompensationFailed}}}
}

// retain removes the sagas whose time to keep has passed, in rounds, until soft ends. It returns at
// once if all sagas stay without end.
func (u *unit) retain(hard, soft context.Context) {
	every, bounded := retainLatest, false
	for _, r := range u.retentions {
		if r.keep > 0 {
			every, bounded = min(every, max(r.keep/10, retainSoonest)), true
		}
	}
	if !bounded {
		return
	}
	for {
		for _, r := range u.retentions {
			if r.keep > 0 {
				u.retainOnce(hard, soft, r)
			}
		}
		if !wait(soft, nil, time.Now().Add(every), true) {
			return
		}
	}
}

// retainOnce removes the sagas of one retention, on condition that the type is not paused.
func (u *unit) retainOnce(hard, soft context.Context, r retention) {
	p, err := u.prune(&PruneOptions{Saga: u.saga.name, Statuses: r.statuses, Before: time.Now().Add(-r.keep)})
	n := uint64(0)
	if err == nil {
		p.expect = func(b *mainstem.Batch) { u.expect(b) }
		err = p.run(hard, func(Instance, error) bool { n++; return soft.Err() == nil })
	}
	u.count(func(s *Stats) { s.Removed += n })
	if err != nil && soft.Err() == nil && !errors.Is(err, mainstem.ErrConflict) {
		u.opts.Logger.Warn("sagas that have ended cannot be removed yet", "store", u.store, "saga", u.saga.name, "error", err)
	}
}
