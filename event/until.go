package event

import (
	"context"
	"errors"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// errReached ends a subscription that has handled everything up to [SubscribeOptions.Until].
var errReached = errors.New("the subscription has reached its end")

// checkUntil refuses a position that the log has not reached yet, so that the end is reached while
// catching up.
func (sub *Subscription) checkUntil(ctx context.Context) error {
	if sub.opts.Until == 0 {
		return nil
	}
	head, err := sub.store.log.Head(ctx)
	if err == nil && sub.opts.Until > head {
		err = mainstem.Refusef(mainstem.KindInvalid, "subscribe", "Until is %d, beyond the newest position, %d", sub.opts.Until, head)
	}
	return err
}

// reached reports whether nothing after p is to be handled.
func (sub *Subscription) reached(p mainstem.Position) bool {
	return sub.opts.Until > 0 && p >= sub.opts.Until
}

// within returns the elements of evs that are not after the end.
func (sub *Subscription) within(evs []Recorded) []Recorded {
	if sub.opts.Until == 0 {
		return evs
	}
	i := slices.IndexFunc(evs, func(r Recorded) bool { return r.Position > sub.opts.Until })
	if i < 0 {
		return evs
	}
	return evs[:i]
}

// finish moves the checkpoint to the end and then returns [errReached].
func (sub *Subscription) finish() error {
	if sub.written < sub.opts.Until {
		b := &sub.batch
		b.Reset()
		if err := sub.commit(b, sub.opts.Until); err != nil {
			return err
		}
	}
	return errReached
}
