package event

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Do commits what write adds to a batch and returns the receipt.
func (s *Store) Do(ctx context.Context, write func(b *mainstem.Batch)) (r mainstem.Receipt, err error) {
	b := mainstem.NewBatch()
	b.Durability = s.opts.Durability
	write(b)
	if r, err = s.log.Commit(ctx, b); err != nil {
		return mainstem.Receipt{}, s.Explain(ctx, err)
	}
	return r, nil
}

// SetWaitAgain sets the time after which WaitFor looks for its event again, and returns the one
// before.
func SetWaitAgain(d time.Duration) (before time.Duration) {
	before, waitAgain = waitAgain, d
	return before
}
